import re

import pytest

from loupe.schemas.errors import UsageError
from loupe.schemas.plugins import plugins
from loupe.sources.importer import IMPORTERS, importer_for


def test_importers_are_registered_by_format_with_licence_and_citation() -> None:
    for name, importer in IMPORTERS.items():
        assert importer.format == name
        assert importer.licence
        # A general format has no citation; every collection has one.
        assert (importer.citation == "") == (importer.licence == "Unknown: the format names none")


def test_names_of_formats_ignore_case_spaces_and_underscores(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "cuhk-pedes",
        "CUHK-PEDES",
        " cuhk_pedes ",
    ]
    for written in cases:
        with subtests.test(written=written):
            assert importer_for(written) is IMPORTERS["cuhk-pedes"]


def test_an_unknown_format_lists_the_known_ones() -> None:
    known = ", ".join(sorted((*IMPORTERS, *plugins("formats"))))
    message = f"no format is called 'voc'; known are {known}"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        importer_for("voc")
