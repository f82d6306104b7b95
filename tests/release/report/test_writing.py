import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from loupe.release.lineage.reading import open_lineage
from loupe.release.report.scripts import in_order, search_words
from loupe.release.report.writing import DETAIL_ROWS, write_report
from loupe.release.withdrawn.files import notice_text
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice, WithdrawnRow
from tests.release.export.kinds import KINDS, content_of, released
from tests.release.report.hostile import TEXTS, hostile_release
from tests.release.report.reading import columns_of_facet, rows_of, script, scripts, texts_of
from tests.release.report.test_search_index import rows_in

Reports = dict[str, tuple[Path, Path]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """A release of each kind and the report next to it."""
    folders = {kind: released(kind, tmp_path_factory.mktemp(kind)).folder for kind in sorted(KINDS)}
    return {
        kind: (folder, write_report(folder, folder.parent / "report").folder)
        for kind, folder in folders.items()
    }


def flat(chunks: list[list[Any]]) -> list[Any]:
    return [one for chunk in chunks for one in chunk]


def test_every_row_is_written_once_with_all_fields(
    reports: Reports, subtests: pytest.Subtests
) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            rows, details = rows_of(release), flat(scripts(report, "rows"))
            assert len(details) == len(rows) == script(report, "index")["rows"]
            for row, detail in zip(rows, details, strict=True):
                assert detail == {name: row[name] for name in row if name != "image"}


def test_every_row_has_a_tile_and_a_thumbnail(reports: Reports, subtests: pytest.Subtests) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            rows, tiles = rows_of(release), flat(scripts(report, "tiles"))
            firsts = [
                (one["captions"] or [(one.get("contrast") or {}).get("plan", "")])[0]
                for one in rows
            ]
            assert [one[0][:100] for one in tiles] == [text[:100] for text in firsts]
            assert sorted(int(path.stem) for path in report.glob("thumbs/*/*.jpg")) == [
                *range(1, len(rows) + 1)
            ]


def test_facets_match_the_rows(reports: Reports, subtests: pytest.Subtests) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            rows = rows_of(release)
            for name in ("split", "source", "task", "tier", "licence"):
                wanted = [row.get(name) or "" for row in rows]
                if any(wanted):
                    assert columns_of_facet(report, name) == wanted
            if "contrast" in rows[0]:
                wanted = [row["contrast"]["difference"] if row["contrast"] else "" for row in rows]
                found = columns_of_facet(report, "difference")
                assert [one if one != "none (anchor)" else "" for one in found] == wanted


def test_facet_values_keep_their_natural_order() -> None:
    assert in_order("tier", ["", "v0", "v2", "v1"]) == ["", "v0", "v1", "v2"]
    assert in_order("split", ["", "test", "train"]) == ["", "train", "test"]
    assert in_order("source", ["", "b", "a"]) == ["", "b", "a"]


def test_all_words_of_all_texts_are_in_the_index(
    reports: Reports, subtests: pytest.Subtests
) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            wanted: dict[str, list[int]] = {}
            for place, row in enumerate(rows_of(release)):
                words = {word for text in texts_of(row) for word in search_words(text)}
                for word in (*words, f"id:{row['image_entity_id'][:16]}"):
                    wanted.setdefault(word, []).append(place)
            found = {
                word: rows_in(data)
                for one in scripts(report, "words")
                for word, data in zip(one["words"], one["rows"], strict=True)
            }
            assert found == wanted


def test_the_lineage_matches_the_release(reports: Reports, subtests: pytest.Subtests) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            check_lineage(release, report)


def check_lineage(release: Path, report: Path) -> None:
    assert len(scripts(report, "lineage")) == -(-len(rows_of(release)) // DETAIL_ROWS)
    page = script(report, "lineage/0")
    entities = page["entities"]
    with open_lineage(release) as lineage:
        for row, roots in zip(rows_of(release), page["rows"], strict=True):
            ids = [entities[one][1] for one in roots]
            assert ids[: 1 + len(row["captions"])] == [
                row["image_entity_id"],
                *row["caption_entity_ids"],
            ]
            seen, waiting = dict[str, Any](), list(roots)
            while waiting:
                entity = entities[waiting.pop()]
                seen[entity[1]] = entity
                waiting += [parent for _, parent in entity[6]]
            traced = lineage.trace_page(ids)
            assert seen.keys() == traced.entities.keys()
            for entity_id, node in traced.entities.items():
                kind, _, _, state, activity, call, parents, decisions = seen[entity_id]
                assert (kind, state) == (node.entity.kind, node.entity.state)
                assert [(role, entities[one][1]) for role, one in parents] == list(node.parents)
                made = traced.activities[node.activity_id]
                assert page["activities"][activity][:2] == [made.stage, made.version]
                assert bool(call) == (node.model_call_key is not None)
                assert [one[0] for one in decisions] == [
                    one.verdict for one in traced.decisions.get(entity_id, ())
                ]


def test_the_same_release_gives_the_same_bytes(reports: Reports, tmp_path: Path) -> None:
    release, report = reports["contrasts"]
    copy = shutil.copytree(release, tmp_path / release.name)
    again = write_report(copy, tmp_path / "report")
    assert again.is_new
    assert content_of(again.folder) == content_of(report)
    assert not write_report(copy, tmp_path / "report").is_new
    assert sorted(path.name for path in tmp_path.iterdir()) == [release.name, "report"]


def test_a_report_away_from_its_release_contains_previews(tmp_path: Path) -> None:
    release = released("plain", tmp_path / "one").folder
    far = write_report(release, tmp_path / "two" / "report")
    assert (far.record.beside, far.record.previews) == (None, True)
    assert len(list(far.folder.glob("previews/0/*.jpg"))) == far.record.rows
    near = write_report(release, tmp_path / "one" / "report")
    assert (near.record.beside, near.record.previews) == ("release", False)
    assert not (near.folder / "previews").exists()
    with pytest.raises(UsageError, match=r"is another report: of ufine3c 1\.0\.0"):
        write_report(release, near.folder, previews=True)


def test_invalid_input_is_refused_and_leaves_no_files(tmp_path: Path) -> None:
    release = released("plain", tmp_path / "home").folder
    with pytest.raises(UsageError, match="is inside the release"):
        write_report(release, release / "report")
    with pytest.raises(UsageError, match="there is no release in"):
        write_report(release, tmp_path / "report", previous=tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(UsageError, match="is not a report"):
        write_report(release, tmp_path / "taken")
    image = release / "images" / "3.jpg"
    image.write_bytes(image.read_bytes() + b"!")
    with pytest.raises(IntegrityError, match=r"images/3\.jpg has"):
        write_report(release, tmp_path / "report")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "taken"]
    assert write_report(release, tmp_path / "report", verify=False).is_new


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on a release with hostile texts."""
    release = hostile_release(tmp_path_factory.mktemp("hostile"))
    return write_report(release, release.parent / "report").folder


def test_hostile_texts_are_written_verbatim_and_escaped(hostile: Path) -> None:
    details = flat(scripts(hostile, "rows"))
    assert [one["captions"][0] for one in details] == list(TEXTS)
    for path in (hostile / "data").rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert "<" not in text
        assert text.count("\n") == 1
    page = (hostile / "index.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1
    assert 'href="javascript' not in page
    assert "&lt;script&gt;window.broken" in page


def test_rows_are_streamed(tmp_path: Path) -> None:
    """The images of the release are much larger than the memory that writing needs."""
    from loupe.release.build import build_release
    from tests.release.worlds import SOURCES, Composer, picture, store_world

    world = Composer()
    for number in range(100):
        data = picture(number % 5, (40, 80)) + bytes(180_000) + number.to_bytes(4, "big")
        image = world.image(SOURCES[0], str(number), f"{number}.jpg", sampled=False, data=data)
        world.caption(image, SOURCES[0], f"A person {number}.")
    stored = store_world(tmp_path / "world", world.contents())
    built = build_release(stored.store, stored.blobs, "ufine3c", "1.0.0", tmp_path / "release")
    stored.store.close()
    write_report(built.folder, tmp_path / "warm-up")
    tracemalloc.start()
    write_report(built.folder, tmp_path / "report")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(shard.stat().st_size for shard in (built.folder / "data").iterdir())
    assert size > 16e6
    assert peak < 12e6


def test_the_record_identifies_the_release(reports: Reports, subtests: pytest.Subtests) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            details = json.loads((report / "report.json").read_text())
            manifest = json.loads((release / "manifest.json").read_text())
            assert (details["release"], details["dataset"]) == (manifest["id"], manifest["dataset"])
            assert details["lineage"] is True


def marked(kind: str, home: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A release with withdrawn row 1 and withdrawn first caption of row 2, and its rows."""
    built = released(kind, home)
    rows = rows_of(built.folder)
    named = [
        WithdrawnRow(
            number=number,
            file_path=rows[number - 1]["file_path"],
            entity_id=rows[number - 1]["image_entity_id"],
            texts=texts,
        )
        for number, texts in ((1, ()), (2, (rows[1]["caption_entity_ids"][0],)))
    ]
    notice = WithdrawalNotice(
        withdrawal="key",
        ground="quality",
        release=built.manifest.id,
        dataset=built.manifest.dataset,
        version=built.manifest.version,
        rows=tuple(named),
        superseded_by=None,
    )
    (built.folder / "WITHDRAWN.json").write_bytes(notice_text(NoticeList(notices=(notice,))))
    return built.folder, rows


def test_withdrawn_items_are_nowhere_in_the_report(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for kind in ("plain", "street", "contrasts"):
        with subtests.test(kind=kind):
            assert_nowhere(*marked(kind, tmp_path / kind))


def assert_nowhere(folder: Path, rows: list[dict[str, Any]]) -> None:
    written = write_report(folder, folder.parent / "report")
    assert (written.record.withdrawn, written.unreadable) == (2, ())
    assert not (written.folder / "thumbs/0/1.jpg").exists()
    assert (written.folder / "thumbs/0/2.jpg").is_file()
    first, second = script(written.folder, "rows/0")[:2]
    assert (first["captions"], first["withdrawn"]) == ([], True)
    assert second["captions"] == rows[1]["captions"][1:]
    assert script(written.folder, "tiles/0")[0] == ["withdrawn", 1]
    assert script(written.folder, "lineage/0")["rows"][0] == []
    traced = {one[1] for one in script(written.folder, "lineage/0")["entities"]}
    assert traced.isdisjoint((rows[0]["image_entity_id"], rows[1]["caption_entity_ids"][0]))
    everything = b"".join(content_of(written.folder).values()).decode("utf-8", "replace")
    elsewhere = {text for row in rows[2:] for text in row["captions"]} | set(
        rows[1]["captions"][1:]
    )
    for text in {*rows[0]["captions"], rows[1]["captions"][0]} - elsewhere:
        assert f'"{text}"' not in everything
    assert "Withdrawn items are not shown here." in everything
