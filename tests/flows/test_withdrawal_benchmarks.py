"""Withdrawals from benchmarks with linked rows: groups, tiers, and people in videos."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from loupe.db.entities import children_of, find
from loupe.db.releases import find_release
from loupe.db.tables import Embedding
from loupe.db.withdrawals import list_withdrawals
from loupe.flows.engine.embedding import CachedEmbedder, image_file, pinned
from loupe.flows.engine.report import Progress
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.release.withdrawn.files import read_mark
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from tests.flows.withdrawals import RELEASED, Home, home_of
from tests.release import ccd_world, recos_world, street_world
from tests.release.ccd_world import CCD
from tests.release.recos_world import RECOS
from tests.release.worlds import Composer

MakeHome = Callable[..., Home]
TIERS = (("0.1.0", "v0"), ("1.1.0", "v1"), ("2.1.0", "v2"))


@pytest.fixture
def make_home(tmp_path: Path) -> Iterator[MakeHome]:
    homes: list[Home] = []

    def make(composer: Composer, releases: object = RELEASED) -> Home:
        homes.append(home_of(tmp_path / "home", composer, releases=releases))  # type: ignore[arg-type]
        return homes[-1]

    yield make
    for one in homes:
        one.store.close()


def withdrawn(home: Home, kind: str) -> set[str]:
    """Return the withdrawn entities of a kind in all datasets."""
    states = home.states()
    kinds = {
        one.id
        for dataset in (CCD, RECOS, street_world.DATASET, "coco", "openverse")
        for one in find(home.store, dataset, kind)
    }
    return {id_ for id_ in kinds if states[id_] == "withdrawn"}


def images_in(home: Home, name: str) -> int:
    return find_release(home.store, name).manifest.statistics.images


def test_an_anchor_is_withdrawn_with_its_group_and_a_contrast_alone(make_home: MakeHome) -> None:
    """The file of an image found by search is kept."""
    benchmark = ccd_world.benchmark()
    home = make_home(benchmark.world)
    group, other = benchmark.groups[:2]
    images = {one.id: one.record(Image) for one in find(home.store, CCD, Image.kind)}
    home.withdraw("entity", group.anchor)
    assert withdrawn(home, Image.kind) & images.keys() == {group.anchor, *group.contrasts}
    assert images_in(home, f"{CCD}@1.0.1") == images_in(home, f"{CCD}@1.0.0") - 3
    assert not verify_release(home.release("1.0.1", CCD)).problems
    for contrast in group.contrasts:
        record = images[contrast]
        assert record.contrast is not None
        is_there = home.world.blobs.has(record.sha256, record.media_type)
        assert is_there == (record.contrast.method == "search")
    plan = home.withdraw("entity", other.contrasts[0], "copyright")
    reached = {id_ for id_, one in plan.reached.items() if one.kind == Image.kind}
    assert reached == {other.contrasts[0]}
    assert images_in(home, f"{CCD}@1.0.2") == images_in(home, f"{CCD}@1.0.1") - 1
    assert not verify_release(home.release("1.0.2", CCD)).problems


def test_vectors_of_images_as_released_are_forgotten_and_not_stored_again(
    make_home: MakeHome,
) -> None:
    benchmark = ccd_world.benchmark(groups=2)
    home = make_home(benchmark.world)
    rows = read_release(home.release("1.0.0", CCD)).rows
    group = benchmark.groups[0]
    gone = {row.sha256 for row in rows if row.image_entity_id in {group.anchor, *group.contrasts}}
    assert len(gone) == 3
    files = [image_file(row.sha256, home.release("1.0.0", CCD) / row.file_path) for row in rows]
    embedder = CachedEmbedder(home.store, pinned(BuiltinEmbedder()), Progress())
    embedder.embed_images(files)

    def known() -> set[str]:
        with home.store.read() as connection:
            return set(connection.execute(select(Embedding.sha256)).scalars())

    assert {row.sha256 for row in rows} <= known()
    home.withdraw("entity", group.anchor)
    assert known() == {row.sha256 for row in rows} - gone
    kept = [one for one in files if Path(one.name).exists()]
    embedder.embed_images(kept)
    assert not known() & gone


def test_a_group_whose_anchor_has_no_captions_is_not_released(make_home: MakeHome) -> None:
    benchmark = ccd_world.benchmark(groups=2, coarse=False)
    home = make_home(benchmark.world)
    anchor = benchmark.groups[0].anchor
    for caption in children_of(home.store, [anchor], Role.DESCRIBES)[anchor]:
        plan = home.withdraw("entity", caption, "quality")
        newest = plan.affected.releases[-1]
        left = sum(one.rows for one in plan.affected.patches)
        assert newest.rows_gone == newest.release.manifest.statistics.images - left
    assert [one.rows for one in plan.affected.patches] == [3]
    assert len(newest.undescribed) == 3  # the anchor and its two contrasts
    assert all(one.is_finished for one in list_withdrawals(home.store))


def test_all_tiers_are_patched_together_and_contain_each_other(
    make_home: MakeHome,
) -> None:
    """A tier without the withdrawn item is patched, too, but its release is not marked."""
    benchmark = recos_world.benchmark()
    home = make_home(benchmark.world, TIERS)
    plan = home.withdraw("entity", benchmark.images["v2"][0])
    assert [one.version for one in plan.affected.patches] == ["0.1.1", "1.1.1", "2.1.1"]
    assert [one.release.manifest.version for one in plan.affected.releases] == ["2.1.0"]
    assert read_mark(home.release("0.1.0", RECOS)) is None
    assert images_in(home, f"{RECOS}@0.1.1") == images_in(home, f"{RECOS}@0.1.0")
    taken = benchmark.images["v0"][0]
    plan = home.withdraw("entity", taken)
    assert [one.version for one in plan.affected.patches] == ["0.1.2", "1.1.2", "2.1.2"]
    top = find_release(home.store, f"{RECOS}@2.1.2").manifest
    assert [one.version for one in top.contains] == ["0.1.2", "1.1.2"]
    for tier in ("0.1", "1.1", "2.1"):
        mark = read_mark(home.release(f"{tier}.1", RECOS))
        assert mark is not None
        assert [row.entity_id for row in mark.notices[0].rows] == [taken]
        assert mark.notices[0].superseded_by == f"{tier}.2"
        before, after = (images_in(home, f"{RECOS}@{tier}.{patch}") for patch in (1, 2))
        assert after == before - 1
        assert not verify_release(home.release(f"{tier}.2", RECOS)).problems


def test_a_person_is_withdrawn_alone_and_a_video_with_all_people(
    make_home: MakeHome,
) -> None:
    home = make_home(street_world.street_world())
    dataset = street_world.DATASET
    others = home.plan("identity", "street-2", dataset=dataset).reached
    plan = home.withdraw("identity", "street-1", dataset=dataset)
    kinds = [one.kind for one in plan.reached.values()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "image": 3,
        "caption": 6,
        "tracklet": 2,
        "filter_report": 1,
        "track": 1,
    }
    assert not others.keys() & plan.reached.keys()
    erased = {blob.sha256 for blob in plan.erased}
    assert len(erased) == 3
    assert images_in(home, f"{dataset}@1.0.1") == images_in(home, f"{dataset}@1.0.0") - 3
    assert not verify_release(home.release("1.0.1", dataset)).problems
    plan = home.withdraw("video", "square.mp4", "law")
    assert sum(one.kind == "image" for one in plan.reached.values()) == 2
    (video,) = (one for one in plan.reached.values() if one.kind == "video")
    assert home.states()[video.id] == "withdrawn"
    videos = find_release(home.store, f"{dataset}@1.0.2").manifest.videos
    assert "square.mp4" not in {one.file_path for one in videos}
