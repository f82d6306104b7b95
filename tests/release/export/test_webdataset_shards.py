"""Exported shards, read with webdataset."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from loupe.release.export import export_release
from loupe.release.export.formats import format_called
from tests.release.export.conftest import Releases
from tests.release.export.kinds import truth, without_image


def samples(shards: list[Path]) -> list[dict[str, Any]]:
    """Samples that webdataset reads from the shards; files are closed explicitly here."""
    from webdataset.tariterators import group_by_keys, tar_file_expander

    found: list[dict[str, Any]] = []
    for shard in shards:
        with shard.open("rb") as stream:
            sources = [{"url": str(shard), "stream": stream}]
            found += group_by_keys(tar_file_expander(sources))
    return found


def shards_of(folder: Path) -> list[Path]:
    return [
        shard for split in ("train", "val", "test") for shard in sorted(folder.glob(f"{split}-*"))
    ]


def assert_samples_equal_rows(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert len(found) == len(wanted)
    for sample, row in zip(found, wanted, strict=True):
        assert sample["__key__"] == Path(row["file_path"]).stem
        assert sample["jpg"] == row["image"]
        assert json.loads(sample["json"]) == without_image(row)
        assert sample["txt"].decode() == (row["captions"][0] if row["captions"] else "")


def test_webdataset_reads_every_row(
    releases: Releases, subtests: pytest.Subtests, exports: Releases
) -> None:
    for kind, release in releases.items():
        with subtests.test(kind=kind):
            shards = shards_of(exports[f"{kind}/webdataset"])
            assert {shard.name.split("-")[0] for shard in shards} == {
                row["split"] for row in truth(release)
            }
            assert_samples_equal_rows(samples(shards), truth(release))


def test_webdataset_decodes_every_image_of_every_type(
    releases: Releases, exports: Releases
) -> None:
    from webdataset.autodecode import Decoder, imagehandler

    decoder = Decoder([imagehandler("pil")])
    decoded = map(decoder, samples(shards_of(exports["mixed/webdataset"])))
    rows = truth(releases["mixed"])
    assert {row["file_path"].rpartition(".")[2] for row in rows} == {"jpg", "png", "webp"}
    assert [one["jpg"].size for one in decoded] == [
        (row["width_px"], row["height_px"]) for row in rows
    ]


@pytest.mark.parametrize("shard_bytes", [1, 8_000])
def test_shards_have_the_requested_size(
    releases: Releases, tmp_path: Path, shard_bytes: int
) -> None:
    rows = truth(releases["street"])
    made = export_release(
        releases["street"], format_called("webdataset", shard_bytes), tmp_path / "out"
    )
    shards = shards_of(made.folder)
    assert_samples_equal_rows(samples(shards), rows)
    per_shard = [len(samples([shard])) for shard in shards]
    if shard_bytes == 1:
        assert per_shard == [1] * len(rows)
        assert [shard.name for shard in shards][-2:] == ["test-000000.tar", "test-000001.tar"]
    else:
        assert 1 < len(shards) < len(rows)
    for shard in shards:
        splits = {json.loads(sample["json"])["split"] for sample in samples([shard])}
        assert splits == {shard.name.split("-")[0]}


def test_members_contain_no_times_and_owners(exports: Releases) -> None:
    (shard,) = shards_of(exports["plain/webdataset"])
    assert shard.stat().st_size % tarfile.RECORDSIZE == 0
    with tarfile.open(shard) as tar:
        members = tar.getmembers()
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname, one.mode) for one in members} == {
        (0, 0, 0, "", "", 0o644)
    }
    assert {Path(one.name).suffix for one in members} == {".jpg", ".json", ".txt"}
