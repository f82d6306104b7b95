import hashlib
import os
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.schemas.records import Granularity, Source
from loupe.sources.files import digest_file
from loupe.sources.importer import importer_for


def test_a_source_has_the_terms_of_its_importer_and_the_digest_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "reid_raw.json"
    path.write_bytes(b"[]" * 1_000_000)
    source = importer_for("cuhk-pedes").describe(path)
    assert source == Source(
        name="cuhk-pedes",
        format="cuhk-pedes",
        annotation_file="reid_raw.json",
        annotation_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        licence="Research use only, from the authors on request",
        citation=importer_for("cuhk-pedes").citation,
        homepage="https://github.com/ShuangLI59/Person-Search-with-Natural-Language-Description",
        granularity=Granularity.COARSE,
    )


def test_arguments_override_the_terms_of_the_importer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}")
    source = importer_for("json-lines").describe(
        path,
        name="street",
        licence="CC0-1.0",
        citation="Ours",
        homepage="https://example.org",
        granularity=Granularity.MEDIUM,
    )
    assert (source.name, source.licence, source.citation) == ("street", "CC0-1.0", "Ours")
    assert (source.homepage, source.granularity) == ("https://example.org", Granularity.MEDIUM)


def test_another_citation_removes_the_default_homepage(tmp_path: Path) -> None:
    path = tmp_path / "reid_raw.json"
    path.write_bytes(b"[]")
    assert importer_for("cuhk-pedes").describe(path, citation="Ours").homepage is None


@pytest.mark.parametrize(
    ("image_format", "name", "licence", "credited"),
    [
        ("cuhk-pedes", "CUHK-PEDES", None, True),
        ("cuhk-pedes", "cuhk_2017", None, True),
        ("cuhk-pedes", "CUHK-PEDES", "CC0-1.0", False),
        ("cuhk-pedes", "our-street", None, False),
        ("coco-captions", "MSCOCO", None, True),
        ("coco-captions", "holiday", "CC-BY-4.0", False),
        ("rstpreid", "RSTPReid", None, True),
        ("karpathy-flickr30k", "flickr30k", None, True),
        ("karpathy-flickr30k", "ours", "CC-BY-4.0", False),
    ],
)
def test_authors_are_credited_only_with_their_own_collection(
    tmp_path: Path, image_format: str, name: str, licence: str | None, credited: bool
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[]")
    importer = importer_for(image_format)
    source = importer.describe(path, name=name, licence=licence)
    assert source.citation == (importer.citation if credited else "")
    assert source.homepage == (importer.homepage if credited else None)
    ours = importer.describe(path, name=name, licence=licence, citation="Ours")
    assert (ours.citation, ours.homepage) == ("Ours", None)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    path.write_bytes(b"{}")
    with pytest.raises(FormatError, match=r"caf\\udce9.jsonl has a name that is no UTF-8"):
        importer_for("json-lines").describe(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.json cannot be read: No such file"):
        digest_file(tmp_path / "none.json")
