"""`croissant.json`, validated and read with the official library `mlcroissant`."""

import json
import socket
from pathlib import Path
from typing import Any

import mlcroissant
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from loupe.release.card.croissant import CONTEXT
from loupe.release.format.files import CROISSANT, digest_of_file
from loupe.release.format.manifest import MANIFEST, read_files
from loupe.release.format.row_files import schema_of
from loupe.release.format.rows import form_of
from tests.release.kinds import ABOUT, Built

# warnings of the JSON-LD parser and the pandas calls of mlcroissant
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame"),
]

UNDATED = '"https://schema.org/datePublished" is recommended, but does not exist.'


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on any network connection."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def document(made: Built) -> dict[str, Any]:
    return dict(json.loads((made.folder / CROISSANT).read_text("utf-8")))


def test_mlcroissant_finds_no_faults_and_reads_the_same_rows_as_parquet(
    every_kind: dict[str, Built],
) -> None:
    for release in every_kind.values():
        loaded = mlcroissant.Dataset(jsonld=release.folder / CROISSANT)
        issues = loaded.metadata.ctx.issues
        assert (issues.errors, issues.warnings) == (set(), set())
        assert str(loaded.metadata.ctx.conforms_to.value).endswith("1.1")
        shards = sorted((release.folder / "data").glob("*.parquet"))
        wanted = [row for shard in shards for row in pq.read_table(shard).to_pylist()]
        found = list(loaded.records("rows"))
        parts = parts_of(release)
        assert len(found) == len(wanted) == release.manifest.statistics.images
        for got, row in zip(found, wanted, strict=True):
            picture = got.pop("rows/image")
            image = row.pop("image")
            assert isinstance(picture, Picture.Image)
            beside = Picture.open(release.folder / image["path"])
            assert picture.tobytes() == beside.tobytes()
            assert plain(got) == {
                name: dict.fromkeys(parts[name]) if value is None and name in parts else value
                for name, value in row.items()
            }


def parts_of(release: Built) -> dict[str, list[str]]:
    """Names of the fields of each struct column; mlcroissant reads null as a struct of nulls."""
    columns = schema_of(form_of(release.manifest))
    return {
        one.name: [part.name for part in one.type]
        for one in columns
        if pa.types.is_struct(one.type) and one.name != "image"
    }


def plain(value: Any) -> Any:
    """A record without key prefixes and with bytes decoded."""
    if isinstance(value, dict):
        return {key.rpartition("/")[2]: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value


def test_splits_and_sources_are_record_sets(
    every_kind: dict[str, Built],
) -> None:
    for release in every_kind.values():
        loaded = mlcroissant.Dataset(jsonld=release.folder / CROISSANT)
        splits = [one["splits/name"] for one in loaded.records("splits")]
        assert splits == [one.split for one in release.manifest.statistics.splits]
        sources = {one["sources/name"]: one["sources/licence"] for one in loaded.records("sources")}
        assert sources == {one.name: one.licence for one in release.manifest.sources}
        (kinds,) = [
            one["dataType"] for one in document(release)["recordSet"] if one["@id"] == "splits"
        ]
        assert kinds == ["cr:Split"]


def test_all_files_except_images_are_listed_with_their_digests(
    every_kind: dict[str, Built],
) -> None:
    for release in every_kind.values():
        details = {
            one["contentUrl"]: (one["sha256"], int(one["contentSize"].removesuffix(" B")))
            for one in document(release)["distribution"]
            if one["@type"] == "cr:FileObject"
        }
        listed = {
            one.path: (one.sha256, one.size_bytes)
            for one in read_files(release.folder / MANIFEST)
            if not one.path.startswith("images/")
        }
        assert listed.pop(CROISSANT)[0] == digest_of_file(release.folder / CROISSANT)
        assert details == listed


def test_the_file_contains_the_statements_of_the_curators(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        details = document(release)
        assert details["alternateName"] == ABOUT.title
        assert details["description"] == ABOUT.description
        assert details["datePublished"] == "2026-11-22"
        assert [one["name"] for one in details["creator"]] == ["Ada Lovelace", "Example Laboratory"]
        assert details["url"] == ABOUT.homepage
        assert "version = {" in details["citeAs"]
        assert any(
            "Krippendorff's alpha 0.610" in one for one in details["rai:dataAnnotationAnalysis"]
        )


def test_the_context_equals_that_of_mlcroissant() -> None:
    from mlcroissant._src.core.context import Context, CroissantVersion
    from mlcroissant._src.core.rdf import make_context

    assert make_context(Context(conforms_to=CroissantVersion.V_1_1)) == CONTEXT


def test_without_a_date_the_only_warning_is_the_missing_date(sound: Path) -> None:
    issues = mlcroissant.Dataset(jsonld=sound / CROISSANT).metadata.ctx.issues
    assert not issues.errors
    (warning,) = issues.warnings
    assert warning.endswith(UNDATED)


def test_all_columns_are_described(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        (rows,) = [one for one in document(release)["recordSet"] if one["@id"] == "rows"]
        assert [one["name"] for one in rows["field"]] == schema_of(form_of(release.manifest)).names
        assert all(one["description"] for one in rows["field"])
