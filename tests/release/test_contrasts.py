"""Releases of contrastive benchmarks: rows, files, statistics, refusals and verification."""

import json
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.db.entities import NewDecision, new_entity
from loupe.release.build import BuiltRelease, build_release
from loupe.release.card.documents import render_card
from loupe.release.contamination import UNCHECKED, Checks
from loupe.release.format.files import ATTRIBUTION
from loupe.release.format.row_files import CCD_LINES, spelled
from loupe.release.verify import verify_release
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.errors import IntegrityError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Attribution, PromptText
from loupe.schemas.release import GateStatistics, LeftOutGroups
from loupe.schemas.taxonomy import DifferenceType
from tests.release.cases import check_on_copies
from tests.release.ccd_world import (
    CAPTIONS,
    CCD,
    COCO,
    KINDS,
    OPENVERSE,
    Benchmark,
    benchmark,
    coarse_caption,
    contrast,
    drafted,
    proposed_strategy,
    refine,
    strategy_of,
)
from tests.release.forging import reseal
from tests.release.worlds import GATE, LLAMA, PROMPT, QWEN, picture, store_world


def build(made: Benchmark, home: Path, checks: Checks = UNCHECKED, **options: Any) -> BuiltRelease:
    world = store_world(home / "world", made.world.contents(), **options)
    try:
        return build_release(world.store, world.blobs, CCD, "1.0.0", home / "out", checks=checks)
    finally:
        world.store.close()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / f"{CCD}.json").read_text(encoding="utf-8"))
    return rows


def faults(folder: Path) -> list[str]:
    return [one.fault for one in verify_release(folder).problems]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> BuiltRelease:
    return build(benchmark(), tmp_path_factory.mktemp("ccd"))


@pytest.fixture
def copy(released: BuiltRelease, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released.folder, tmp_path / "copy"))


def test_groups_are_contiguous_and_neither_names_nor_order_tell_the_anchor(
    released: BuiltRelease,
) -> None:
    rows = rows_of(released.folder)
    groups = [(row["contrast"] or {"anchor": row["file_path"]})["anchor"] for row in rows]
    assert len(list(groupby(groups))) == 6
    places = [groups.index(group) for group in groups]
    anchors = [at - places[at] for at, row in enumerate(rows) if row["contrast"] is None]
    assert len(anchors) == 6
    assert len(set(anchors)) > 1  # not always the first of its group
    for number, row in enumerate(rows, 1):
        assert row["id"] == number
        assert row["file_path"] == f"images/{number}.jpg"
        assert len(row["coarse_captions"]) == (0 if row["contrast"] else CAPTIONS)
        assert (released.folder / row["file_path"]).is_file()
        assert len(row["captions"]) == CAPTIONS
    assert len(rows) == 18
    assert verify_release(released.folder, decode=True).problems == []


def test_groups_of_stored_images_start_with_their_anchor(tmp_path: Path) -> None:
    released = build(benchmark(), tmp_path, checks=Checks(images="stored"))
    anchor = None
    for number, row in enumerate(rows_of(released.folder), 1):
        if row["contrast"] is None:
            anchor = row["file_path"]
            assert anchor == f"images/{number}.jpg"
        else:
            assert row["contrast"]["anchor"] == anchor
            stem = Path(str(anchor)).stem
            assert row["file_path"] == f"images/{stem}_{number}.jpg"
    assert released.manifest.encoding is None
    assert verify_release(released.folder).problems == []


def test_rows_contain_their_contrast_and_licence_terms(released: BuiltRelease) -> None:
    rows = [row for row in rows_of(released.folder) if row["contrast"]]
    found = next(row for row in rows if row["contrast"]["method"] == "search")
    edited = next(row for row in rows if row["contrast"]["method"] == "edit")
    assert (found["licence"], found["creator"]) == ("CC-BY-SA-4.0", "Ada [Lovelace]")
    assert found["source_url"] == "https://example.org/a_b/1"
    assert (edited["licence"], edited["creator"]) == (COCO.licence, None)
    assert {row["contrast"]["difference"] for row in rows} == {kind.value for kind in KINDS}
    assert found["contrast"]["detail"] == "a red bus"
    assert found["contrast"]["plan"] == "a blue bus"


def test_statistics_count_difference_types_and_tokens(released: BuiltRelease) -> None:
    found = released.manifest.statistics.contrasts
    assert found is not None
    assert (found.anchors, found.contrastive, found.captions_per_image) == (6, 12, CAPTIONS)
    assert sum(one.images for one in found.differences) == 12
    assert sum(one.found + one.edited for one in found.differences) == 12
    assert found.coarse_captions == 6 * CAPTIONS
    assert found.coarse_tokens == 7.0  # A street 0 , said 1 .
    assert found.tokens > found.coarse_tokens
    assert (found.without_captions, found.without_anchor) == (0, 0)


def test_json_lines_have_the_layout_of_the_authors(released: BuiltRelease) -> None:
    lines = (released.folder / CCD_LINES).read_text(encoding="utf-8").splitlines()
    details = [json.loads(line) for line in lines]
    images = [one["image"] for one in details]
    for one in details:
        assert (released.folder / "images" / one["image"]).is_file()
        assert len(one["captions"]) == 5
        assert ("ori_image" in one) == ("contrastive_aspect" in one)
        if "contrastive_aspect" in one:
            assert one["ori_image"] in images
    aspects = {one["contrastive_aspect"] for one in details if "contrastive_aspect" in one}
    assert {"Entity Relationship", "Event Category", "Event Element"} <= aspects
    assert "Style and Presentation" in aspects


def test_spellings_of_the_authors_are_accepted() -> None:
    for kind in DifferenceType:
        assert DifferenceType(spelled(kind)) is kind, kind


def test_translations_are_grouped_by_language_and_null_if_missing(tmp_path: Path) -> None:
    made = benchmark(2)
    first, second = made.groups
    for place in range(CAPTIONS):
        drafted(made.world, first.anchor, COCO, f"一条街道 {place}", place, language="zh")
    drafted(made.world, second.anchor, COCO, "一条街道", 3, language="zh")
    built = build(made, tmp_path)
    rows = [row for row in rows_of(built.folder) if row["translations"]]
    assert sorted((row["translations"]["zh"] for row in rows), key=str) == sorted(
        [
            [f"一条街道 {place}" for place in range(CAPTIONS)],
            [None, None, None, "一条街道", None],
        ],
        key=str,
    )
    assert all(len(row["captions"]) == CAPTIONS for row in rows)
    assert built.manifest.statistics.contrasts is not None
    assert built.manifest.statistics.contrasts.translations == (("zh", CAPTIONS + 1),)
    assert "captions_zh" in (built.folder / CCD_LINES).read_text(encoding="utf-8")
    assert verify_release(built.folder).problems == []


def test_contrastive_images_of_anchors_without_captions_are_left_out(tmp_path: Path) -> None:
    made = benchmark(3)
    world = made.world
    bare = world.image(COCO, "7", "val/COCO_7.jpg")
    lost = contrast(world, bare, 50, 0)
    refine(world, lost, OPENVERSE, "something")
    contrast(world, made.groups[0].anchor, 51, 0)  # without fine captions
    built = build(made, tmp_path)
    found = built.manifest.statistics.contrasts
    assert found is not None
    assert (found.anchors, found.contrastive) == (3, 6)
    assert (found.without_captions, found.without_anchor) == (2, 1)
    assert verify_release(built.folder).problems == []
    card = (built.folder / "README.md").read_text(encoding="utf-8")
    assert "2 images without fine captions are left out" in card
    assert "1 contrastive image is left out because its anchor is" in card


def test_left_out_groups_are_counted_by_reason(tmp_path: Path) -> None:
    made = benchmark(2)
    world = made.world
    for number in (11, 12, 13):
        coarse_caption(world, world.image(COCO, str(number), f"val/{number}.jpg"), "A cat.", 0)
    undecided = world.image(COCO, "14", "val/14.jpg")
    contrast(world, undecided, 14, 0)
    for number in (15, 16):
        anchor = world.image(COCO, str(number), f"val/{number}.jpg")
        captions = refine(world, anchor, COCO, f"the anchor {number}")
        other = contrast(world, anchor, number, 0)
        captions = [*captions, *refine(world, other, OPENVERSE, f"the other {number}")]
        world.decisions += [NewDecision(one, "reject", GATE, reason="wrong") for one in captions]
    built = build(made, tmp_path)
    found = built.manifest.statistics.contrasts
    assert found is not None
    assert found.left_out == LeftOutGroups(alone=3, rejected=2, undecided=1)
    assert (found.without_captions, found.without_anchor) == (3 + 2 * 2 + 2, 0)
    assert verify_release(built.folder).problems == []
    card = (built.folder / "README.md").read_text(encoding="utf-8")
    assert "- 9 images without fine captions are left out:\n" in card
    assert "\n  - 3 anchors without contrastive images;\n" in card
    assert "\n  - 2 groups whose captions were rejected;\n" in card
    assert "\n  - 1 group whose captions were not written or not reviewed.\n" in card


def test_repeated_images_and_captions_are_stated(tmp_path: Path) -> None:
    made = benchmark(3)
    world, (first, second, third) = made.world, made.groups
    text = "A picture of a street that two images show."
    for image, caption in (
        (first.anchor, text),
        (first.anchor, text),
        (third.anchor, f" {text}\n"),
    ):
        drafted(world, image, COCO, caption.replace("A ", "a "), 5)
    shared: dict[str, Any] = {"sha256": sha256_of(picture(1000)), "file_path": "val/shared"}
    refine(world, contrast(world, second.anchor, 80, 0, **shared), OPENVERSE, "shared")
    built = build(made, tmp_path)
    repeats = built.manifest.statistics.repeats
    assert (repeats.images, repeats.captions) == (2, 2)
    rows = {row["file_path"]: row for row in rows_of(built.folder)}
    (pair,), (captioned,) = repeats.image_pairs, repeats.caption_pairs
    anchors = [rows[one]["contrast"]["anchor"] for one in pair]
    assert len(set(anchors)) == 2
    assert all(rows[one]["contrast"] is None for one in captioned)
    assert verify_release(built.folder).problems == []
    card = (built.folder / "README.md").read_text(encoding="utf-8")
    limits = card.split("## Known limits")[1]
    assert "- 2 images are the same image, byte for byte, as one of another row" in limits
    assert f"such as {pair[0]}" in limits
    assert " also occur, word for word, at another image, such as" in limits


def test_the_card_states_review_only_if_people_decided(released: BuiltRelease) -> None:
    manifest = released.manifest
    nobody = "No person compared an image with its anchor"
    assert nobody in render_card(manifest)
    gates = (GateStatistics(gate="candidates", by_people=4, by_policy=()),)
    statistics = manifest.statistics.model_copy(update={"gates": gates})
    marked = manifest.model_copy(update={"unreviewed": True, "statistics": statistics})
    assert nobody not in render_card(marked)
    assert "Nobody annotated" not in render_card(marked)


def test_an_anchor_in_another_split_is_refused(tmp_path: Path) -> None:
    made = benchmark(2)
    image = contrast(made.world, made.groups[0].anchor, 60, 0, split="train")
    refine(made.world, image, OPENVERSE, "x")
    with pytest.raises(
        IntegrityError, match=r"contrastive images in another split than their anchor \(1\)"
    ):
        build(made, tmp_path)


def test_a_contrastive_image_cannot_be_an_anchor(tmp_path: Path) -> None:
    made = benchmark(2)
    image = contrast(made.world, made.groups[0].contrasts[0], 60, 0)
    refine(made.world, image, OPENVERSE, "x")
    with pytest.raises(IntegrityError, match="whose anchor is also contrastive"):
        build(made, tmp_path)


def test_images_under_a_forbidding_licence_stop_the_build(tmp_path: Path) -> None:
    for licence in ("CC-BY-ND-4.0", "All rights reserved"):
        made, home = benchmark(2), tmp_path / licence
        terms = Attribution(licence=licence, creator="B")
        image = contrast(made.world, made.groups[0].anchor, 60, 0, attribution=terms)
        refine(made.world, image, OPENVERSE, "x")
        with pytest.raises(IntegrityError, match=r"licence of their own .*: 1 of openverse"):
            build(made, home)
        assert not (home / "out").exists()


def test_editors_of_images_are_listed(tmp_path: Path) -> None:
    made, editor = benchmark(2), "loupe-editor@1"
    image = contrast(made.world, made.groups[0].anchor, 70, 0, method="edit", editor=editor)
    refine(made.world, image, COCO, "x")
    built = build(made, tmp_path)
    assert built.manifest.demonstration
    assert built.manifest.statistics.contrasts is not None
    assert built.manifest.statistics.contrasts.editors == ((editor, 1),)
    assert "1 image was edited by" in (built.folder / "README.md").read_text(encoding="utf-8")
    assert verify_release(built.folder).problems == []


def test_models_and_prompts_of_strategies_are_listed(tmp_path: Path) -> None:
    made = benchmark(2)
    world, anchor = made.world, made.groups[0].anchor
    asked = PromptText(prompt_id="contrast_strategies", version="3", digest="c" * 32, text="Find.")
    prompt = world.add(new_entity(asked, CCD))
    proposed = proposed_strategy(world, anchor, prompt, digest_of("one call"), "a blue bus")
    unused = proposed_strategy(world, anchor, prompt, digest_of("another call"), "a green bus")
    edited = strategy_of("a bright blue bus", "a person")
    changed = world.add(new_entity(edited, CCD, parents=[(Role.EDITED_FROM, proposed)]))
    image = contrast(
        world, anchor, 70, 0, method="edit", editor="publisher/editor@1", strategy=changed
    )
    refine(world, image, COCO, "x")
    built = build(made, tmp_path)
    manifest = built.manifest
    assert [one.prompt_id for one in manifest.prompts] == [asked.prompt_id, PROMPT.prompt_id]
    assert {one.name: one.calls for one in manifest.models} == {LLAMA.name: 1, QWEN.name: 35}
    assert unused != proposed  # no released row is derived from its call
    card = (built.folder / "README.md").read_text(encoding="utf-8")
    assert "Prompt `contrast_strategies`, version 3" in card
    assert f"| {LLAMA.name} |" in card
    assert verify_release(built.folder).problems == []


def test_the_attribution_lists_creators_by_licence(released: BuiltRelease) -> None:
    text = (released.folder / ATTRIBUTION).read_text(encoding="utf-8")
    owed = [line for line in text.splitlines() if line.startswith("- `")]
    assert len(owed) == 6
    assert all(r"Ada \[Lovelace\], <https://example.org/a_b/1>" in line for line in owed)
    assert "12 images are under the terms of their source, coco" in text
    counted = {one.licence: (one.images, one.own) for one in released.manifest.statistics.licences}
    assert counted == {"CC-BY-SA-4.0": (6, 6), COCO.licence: (12, 0)}


def _rewrite_parquet(folder: Path, change: Any) -> None:
    (shard,) = (folder / "data").glob("*.parquet")
    table = pq.read_table(shard)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(table.from_pylist(rows, schema=table.schema), shard)


def _first_contrast(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if row["contrast"])


def _first_anchor(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if not row["contrast"])


def test_verify_reports_faults_of_contrastive_rows(released: BuiltRelease, tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        (
            lambda rows: _first_contrast(rows)["contrast"].update(difference="Mood"),
            "difference_unknown",
        ),
        (lambda rows: _first_contrast(rows)["contrast"].update(method="drawn"), "contrast_wrong"),
        (
            lambda rows: _first_contrast(rows)["contrast"].update(anchor_entity_id="0" * 32),
            "lineage_incomplete",
        ),
        (lambda rows: rows[0]["captions"].pop(), "captions_differ"),
        (lambda rows: _first_anchor(rows)["coarse_captions"].pop(), "captions_differ"),
        (lambda rows: _first_contrast(rows).update(licence=" "), "licence_missing"),
        (lambda rows: _first_contrast(rows).update(licence="CC BY-ND 2.0"), "licence_forbids"),
        (lambda rows: _first_contrast(rows).update(creator="Eve"), "attribution_differs"),
        (lambda rows: rows[1].update(split="train"), "split_wrong"),
    ]

    def check(copy: Path, case: tuple[Any, str]) -> None:
        change, fault = case
        _rewrite_parquet(copy, change)
        assert fault in faults(copy)

    check_on_copies(released.folder, tmp_path, cases, check)


def test_verify_compares_the_other_files_with_the_rows(
    released: BuiltRelease, tmp_path: Path
) -> None:
    def check(copy: Path, name: str) -> None:
        path = copy / name
        path.write_text(path.read_text(encoding="utf-8").replace("A", "B", 1), encoding="utf-8")
        reseal(copy)
        assert {"rows_differ", "attribution_differs"} & set(faults(copy))
        path.unlink()
        assert "file_missing" in faults(copy)

    check_on_copies(released.folder, tmp_path, (CCD_LINES, ATTRIBUTION), check)


def test_verify_does_not_report_what_follows_from_a_missing_shard(copy: Path) -> None:
    (shard,) = copy.glob("data/*.parquet")
    data = shard.read_bytes()
    shard.write_bytes(data[:-20])
    assert faults(copy) == ["file_changed", "rows_unreadable"]
    shard.unlink()
    assert faults(copy) == ["file_missing"]
