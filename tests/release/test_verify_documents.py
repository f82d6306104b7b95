"""Verification of changed and resealed documents and files of a release."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loupe.release.card.documents import OF_MANIFEST, card_body
from loupe.release.format.files import CROISSANT
from loupe.release.format.manifest import read_manifest
from loupe.release.report.page import write_page
from loupe.release.verify import verify_release
from loupe.schemas.errors import IntegrityError
from loupe.schemas.release import DOCUMENTS_VERSION, Manifest, ReleaseStatistics
from tests.release.cases import check_on_copies
from tests.release.forging import reseal

DOCUMENTS = (*OF_MANIFEST, CROISSANT)


def faults(folder: Path) -> list[tuple[str, str]]:
    return [(one.fault, one.file) for one in verify_release(folder).problems]


def test_a_missing_document_is_reported(sound: Path, tmp_path: Path) -> None:
    def check(copy: Path, path: str) -> None:
        (copy / path).unlink()
        reseal(copy)
        assert ("file_missing", path) in faults(copy)

    check_on_copies(sound, tmp_path, (*DOCUMENTS, "ufine3c.json"), check)


def test_documents_of_another_version_are_not_accepted(copy: Path) -> None:
    with (copy / "README.md").open("a", encoding="utf-8") as card:
        card.write("As it was worded in another version.\n")
    reseal(copy, left={"README.md"})
    assert faults(copy) == [("document_differs", "README.md")]

    def in_another_version(manifest: Manifest) -> Manifest:
        assert manifest.documents_version == DOCUMENTS_VERSION
        return manifest.model_copy(update={"documents_version": DOCUMENTS_VERSION + 1})

    reseal(copy, change=in_another_version, left=DOCUMENTS)
    assert faults(copy) == [("documents_unknown", "manifest.json")]


def test_files_with_unknown_names_are_reported(copy: Path) -> None:
    paths = (
        *("load.py", "data/extra.parquet", "data/train.parquet", "lineage/more.parquet"),
        *("readme.md", "docs/README.md", "data/load.py"),
        *("ATTRIBUTION.md", "leaks.json", "ccd.jsonl"),  # documents of releases of other kinds
    )
    for path in paths:
        (copy / path).parent.mkdir(exist_ok=True)
        (copy / path).write_bytes(b"print('loaded')\n")
    reseal(copy)
    assert sorted(faults(copy)) == [("file_unknown", path) for path in sorted(paths)]


class Forged(NamedTuple):
    """A change of a document."""

    path: str
    change: Callable[[str], str]


def other_licence(text: str) -> str:
    values = json.loads(text)
    values["license"] = ["https://spdx.org/licenses/CC0-1.0"]
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


FORGED = [
    Forged("README.md", lambda text: text + "\nFree for any use.\n"),
    Forged("README.md", lambda text: text[: len(text) // 2]),
    Forged("README.md", lambda text: text.replace("\n", "\r\n")),
    Forged("CITATION.cff", lambda text: text.replace("name: ", "name: Dr ", 1)),
    Forged("words.svg", lambda text: text.replace("<rect", "<script/><rect", 1)),
    Forged("croissant.json", other_licence),
]


def test_changed_documents_are_reported_with_the_first_different_line(
    sound: Path, tmp_path: Path
) -> None:
    check_on_copies(sound, tmp_path, FORGED, check_forged)


def check_forged(copy: Path, forged: Forged) -> None:
    path = copy / forged.path
    before = path.read_bytes().decode()
    details = forged.change(before)
    assert details != before
    path.write_bytes(details.encode())
    reseal(copy, left=[forged.path])
    (problem,) = verify_release(copy).problems
    assert (problem.fault, problem.file) == ("document_differs", forged.path)
    theirs, ours = details.split("\n"), before.split("\n")
    line = next(
        (
            number
            for number, pair in enumerate(zip(theirs, ours, strict=False), 1)
            if len({*pair}) > 1
        ),
        min(len(theirs), len(ours)) + 1,
    )
    assert f"{forged.path}: line {line} " in problem.message


def test_documents_must_match_the_manifest(copy: Path) -> None:
    reseal(copy, change=lambda one: one.model_copy(update={"version": "9.9.9"}), left=DOCUMENTS)
    found = {file for fault, file in faults(copy) if fault == "document_differs"}
    assert found == {"README.md", "CITATION.cff", "croissant.json"}


def with_invalid_histograms(statistics: ReleaseStatistics) -> dict[str, Any]:
    counted = (
        one.model_copy(update={"histogram": ((0, -5), (10, 0))}) for one in statistics.granularities
    )
    return {"granularities": tuple(counted)}


def without_splits(_: ReleaseStatistics) -> dict[str, Any]:
    return {"splits": ()}


def test_a_manifest_whose_documents_cannot_be_generated_is_reported(
    sound: Path, tmp_path: Path
) -> None:
    def check(copy: Path, values: Callable[[ReleaseStatistics], dict[str, Any]]) -> None:
        def change(manifest: Manifest) -> Manifest:
            statistics = manifest.statistics
            statistics = statistics.model_copy(update=values(statistics))
            return manifest.model_copy(update={"statistics": statistics})

        reseal(copy, change=change, left=DOCUMENTS)
        problems = [one for one in verify_release(copy).problems if one.file == "README.md"]
        assert [one.fault for one in problems] == ["document_differs"]
        assert "cannot be generated" in problems[0].message
        with pytest.raises(IntegrityError, match="values that no release has"):
            card_body(read_manifest(copy))

    check_on_copies(sound, tmp_path, (with_invalid_histograms, without_splits), check)


def test_a_manifest_whose_report_cannot_be_rendered_is_refused(sound: Path, tmp_path: Path) -> None:
    manifest = read_manifest(sound)
    models = (manifest.models[0].model_copy(update={"cost": "abc"}), *manifest.models[1:])
    with pytest.raises(IntegrityError, match="values that no release has"):
        write_page(tmp_path, manifest.model_copy(update={"models": models}), None)
