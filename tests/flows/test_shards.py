"""Shards: steps on shards give the same results as steps on single entities."""

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event
from typing import Any

import PIL.Image
import pytest

from loupe.annotate.backend import Desks
from loupe.db.blobs import SHARD, BlobStore
from loupe.db.calls import cost_rows
from loupe.db.decisions import set_active
from loupe.db.entities import AgentRef, NewEntity, StoredEntity, fetch, find
from loupe.db.lineage import trace
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.flows.engine.contamination import fingerprint_images, fingerprints_of
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import CachedEmbedder, stored_image
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.sampling import SampleSettings
from loupe.flows.engine.software import software
from loupe.flows.faithfulness import check_rewrites
from loupe.flows.rewriting import plan_rewriting, rewrite_captions
from loupe.flows.shards import steps
from loupe.flows.shards.files import (
    RecordResult,
    ShardRow,
    computed_shards,
    erase_records,
    imported_shards,
    read_shard,
    store_shard,
)
from loupe.flows.shards.promotion import (
    damaged_shards,
    find_records,
    promote_drawn,
    promote_image,
    promote_records,
)
from loupe.flows.shards.steps import (
    ShardEmbedding,
    ShardFingerprints,
    embed_shards,
    find_shard_duplicates,
    import_shards,
    rewrite_shards,
    run_step,
)
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of
from loupe.models.profiles.loader import load_profile
from loupe.release.build import build_release
from loupe.release.format.row_files import CCD_LINES
from loupe.release.lineage.reading import open_lineage
from loupe.release.verify import verify_release
from loupe.retrieval.similarity.near_duplicates import find_near_duplicates
from loupe.schemas.base import sha256_of
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.errors import ConfigurationError, IntegrityError, ModelError, UsageError
from loupe.schemas.profile import Launch, OpenAIChat, Prices, Profile
from loupe.schemas.provenance import PROMOTE, Promotion
from loupe.schemas.records import Caption, Granularity, Image, Rewrite, Shard
from tests.flows.homes import contents_of
from tests.flows.runs import copied_run, new_run
from tests.flows.test_evaluation_contrasts import built as contrasts_released
from tests.flows.worlds import write_people
from tests.servers.counting_server import counting_server

NAME, SIZE, BUILT = "people", 20, "built"
PROFILE = load_profile("builtin")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SourceSpec:
    """25 people with two images of two captions each.

    One file is missing, one is a copy, one is nearly the same as another.
    """
    folder = tmp_path_factory.mktemp("source") / "people"
    annotations = write_people(folder, Granularity.FINE, identities=25, images=2, captions=2)
    (folder / "0003_1.jpg").unlink()
    shutil.copy(folder / "0001_0.jpg", folder / "0009_1.jpg")
    for name, left in (("0010_0.jpg", 0), ("0011_0.jpg", 4)):
        PIL.Image.radial_gradient("L").crop((left, 0, left + 192, 160)).save(folder / name)
    return SourceSpec(
        name=NAME,
        format="cuhk-pedes",
        annotations=annotations,
        images=folder,
        licence="CC0-1.0",
        citation="nobody",
    )


@pytest.fixture(scope="module")
def sharded(
    spec: SourceSpec, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunContext]:
    """The source in three shards, rewritten, read-only."""
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("sharded")) as run:
        import_shards(run, spec, SIZE)
        rewrite_shards(run, NAME, PROFILE)
        yield run


@pytest.fixture
def run(sharded: RunContext, tmp_path: Path) -> Iterator[RunContext]:
    with copied_run(sharded, tmp_path / "home") as copied:
        yield copied


@pytest.fixture
def item_by_item(spec: SourceSpec, migrated_sqlite: Path, tmp_path: Path) -> Iterator[RunContext]:
    """The source imported as entities."""
    (tmp_path / "items").mkdir()
    with new_run(migrated_sqlite, tmp_path / "items") as items:
        import_source(items, spec)
        yield items


def rows_of(run: RunContext, step: str) -> list[ShardRow]:
    return [
        row
        for imported in imported_shards(run.store, NAME)
        for shard in (imported, *computed_shards(run.store, imported))
        if shard.group == step
        for row in read_shard(run.blobs, shard)
    ]


def build(run: RunContext, spec: SourceSpec) -> set[str]:
    """Build five people without review, release them as 0.1.0, and return the entity ids."""

    def no_desks() -> Desks:
        raise AssertionError

    values = UFine3CBuild(dataset=BUILT, identities_per_source=5, seed=3, sources=(spec,))
    run_pipeline(run, ufine3c_pipeline(), values, PROFILE, no_desks)
    kinds = (Image, Caption, Rewrite)
    return {one.id for kind in kinds for one in find(run.store, BUILT, kind.kind)}


def test_shards_contain_the_records_that_the_store_would_contain(
    sharded: RunContext, item_by_item: RunContext
) -> None:
    for model in PROFILE.rewrite.models:
        plan = plan_rewriting(NAME, model, PROFILE.rewrite)
        rewrite_captions(item_by_item, plan, PROFILE.rewrite)
    authors = [str(model.ref) for model in PROFILE.rewrite.models]
    check_rewrites(item_by_item, NAME, PROFILE.faithfulness, authors)
    found = [
        RecordResult.of(row)
        for step in ("import_source", "rewrite")
        for row in rows_of(sharded, step)
    ]
    stored = contents_of(item_by_item.settings.home)
    entities = {one.id: one for result in found for one in result.entities}
    assert {one.kind for one in entities.values()} == {
        "image",
        "caption",
        "rewrite",
        "faithfulness",
    }
    assert fetch(item_by_item.store, entities).keys() == entities.keys()
    assert len(stored["entities"]) == len(entities) + 2  # the source and the prompt
    calls = {one.key for result in found for one in result.calls}
    assert calls == {key for key, *_ in stored["calls"]}
    rejections = sorted(one.reason for result in found for one in result.rejections)
    assert rejections == sorted(row[2] for row in stored["work"].elements() if row[2])
    assert "missing_image" in rejections


def test_a_record_with_several_images_is_withdrawn_by_that_of_the_digest(
    home_run: RunContext, tmp_path: Path
) -> None:
    folder = contrasts_released(tmp_path, groups=1, size=1)
    anchor, contrast = (folder / CCD_LINES).read_text(encoding="utf-8").splitlines()
    (tmp_path / "test.json").write_text(f"{contrast}\n{anchor}\n", encoding="utf-8")
    ccd = SourceSpec(
        name="ccd", format="ccd", annotations=tmp_path / "test.json", images=folder / "images"
    )
    import_shards(home_run, ccd, SIZE)
    digest = sha256_of((folder / "images" / json.loads(anchor)["image"]).read_bytes())
    found = promote_image(home_run, digest)
    assert fetch(home_run.store, [found])[found].record(Image).source_sha256 == digest


def test_a_build_from_shards_equals_a_build_from_entities(
    run: RunContext, item_by_item: RunContext, spec: SourceSpec
) -> None:
    before = len(list(find(run.store, NAME, Image.kind)))
    found = build(run, spec)
    assert found == build(item_by_item, spec)
    assert before == 0
    promoted = list(find(run.store, NAME, Image.kind))
    assert len(promoted) == len(list(find(run.store, BUILT, Image.kind)))
    assert verify_release(run.settings.home / "releases" / f"{BUILT}-0.1.0").problems == []
    assert cost_rows(run.store, BUILT) == []  # all answers came from the shards
    assert cost_rows(item_by_item.store, BUILT) != []
    rewrite = next(find(run.store, BUILT, Rewrite.kind))
    stages = {
        one.stage: one.configuration for one in trace(run.store, rewrite.id).activities.values()
    }
    promotion = Promotion.model_validate(stages[PROMOTE])
    for named, step in zip(promotion.rows, ("import_source", "rewrite"), strict=True):
        row = rows_of(run, step)[promotion.number]
        assert (named.names, named.rest) == (tuple(row.names), row.rest)
        assert named.is_proven(promotion.number)
        assert not named.is_proven(promotion.number + 1)
        other = {"row": (named.row + 1) % named.records}
        assert not named.model_copy(update=other).is_proven(promotion.number)
        assert not named.model_copy(update={"names": ("0" * 32,)}).is_proven(promotion.number)
    folder = run.settings.home / "releases" / f"{BUILT}-0.1.0"
    with open_lineage(folder) as lineage:
        traced = lineage.trace(rewrite.id)
    stages = {one.stage: one.configuration for one in traced.activities.values()}
    assert Promotion.model_validate(stages[PROMOTE]) == promotion
    for named in promotion.rows:
        assert traced.entities[named.shard].entity.record(Shard).root == named.root
    shard = promotion.rows[1].shard  # the rewrites of the record
    request = request_of(WithdrawalTarget(sort="entity", name=shard), "quality", None)
    plan = plan_withdrawal(run.store, request)
    carry_out(run, confirm(run.store, plan, "a bad model", AgentRef("person", "operator")))
    build_release(run.store, run.blobs, BUILT, "0.2.0", run.settings.home / "later")
    assert verify_release(run.settings.home / "later").problems == []


def test_a_run_killed_before_its_commit_leaves_nothing_to_repair(
    run: RunContext, sharded: RunContext
) -> None:
    program = ShardFingerprints(run.blobs.url)
    program.work(imported_shards(run.store, NAME)[:2])  # files exist, but the store has no rows
    find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)
    again = find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)
    shards = [one.record(Shard) for one in find(run.store, NAME, Shard.kind)]
    assert len(shards) == 4 * 3
    files = {path.stem for path in Path(run.blobs.url).glob("shards/*/*.parquet")}
    assert files == {one.root for one in shards}
    assert again.kept == again.images - 2


def test_an_import_that_was_killed_is_finished_before_a_build(
    home_run: RunContext, spec: SourceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, second_is_stored = store_shard, Event()

    def killed(*args: Any) -> NewEntity:
        if args[3] == 0 and second_is_stored.wait(60):
            raise ModelError("it ended")
        shard = real(*args)
        second_is_stored.set()
        return shard

    monkeypatch.setattr(steps, "store_shard", killed)
    monkeypatch.setattr(steps, "usual_workers", lambda: 2)
    with pytest.raises(ModelError, match="it ended"):
        import_shards(home_run, spec, SIZE)
    with pytest.raises(ConfigurationError, match="'people' into shards is not complete; finish"):
        build(home_run, spec)
    with pytest.raises(UsageError, match="have no record 3"):
        promote_records(home_run, NAME, [3])
    assert promote_records(home_run, NAME, [23]).done == 1
    monkeypatch.undo()
    import_shards(home_run, spec, SIZE)
    assert promote_records(home_run, NAME, [3, 23]).finished == 1


def rewritten_by(model: OpenAIChat, **values: Any) -> Profile:
    changed = model.model_copy(update=values)
    rewrite = PROFILE.rewrite.model_copy(update={"models": (changed,)})
    return PROFILE.model_copy(update={"rewrite": rewrite})


def test_rewriting_needs_models_without_charge_that_answer(run: RunContext) -> None:
    with counting_server() as server:
        model = OpenAIChat(
            provider="openai", name="counting", revision="1", base_url=server.base_url
        )
        priced, free = (Prices(input_per_million=0, output_per_million=one) for one in (1, 0))
        for prices in (None, priced):
            with pytest.raises(ConfigurationError, match=r"^counting@1 charges for its answers or"):
                rewrite_shards(run, NAME, rewritten_by(model, prices=prices))
        server.refuse = lambda _: "no such parameter"
        refused = r"misconfigured: .*no such parameter.*; nothing of this shard is stored, fix the"
        with pytest.raises(ModelError, match=refused):
            rewrite_shards(run, NAME, rewritten_by(model, prices=free))
        first = RecordResult.of(rows_of(run, "import_source")[0])
        text = json.loads(first.entities[-1].payload)["text"]
        server.refuse = lambda body: "no" if text in str(body["messages"]) else None
        rewrite_shards(run, NAME, rewritten_by(model, launch=Launch(architecture="any")))
    rejected = {
        (row.number, one.reason)
        for row in rows_of(run, "rewrite")
        for one in RecordResult.of(row).rejections
    }
    assert (0, "refused_request") in rejected
    promote_records(run, NAME, [0])
    assert sum(one.failed for one in cost_rows(run.store, NAME)) == 0  # it can be asked again


def test_near_duplicates_and_embeddings_equal_those_of_entities(
    run: RunContext, item_by_item: RunContext, spec: SourceSpec
) -> None:
    fingerprint_images(item_by_item, NAME)
    images = list(find(item_by_item.store, NAME, Image.kind))
    fingerprints = fingerprints_of(item_by_item.store, [one.id for one in images])
    wanted = find_near_duplicates(fingerprints, PROFILE.captioning.near_duplicates)
    embedder = CachedEmbedder(item_by_item.store, PROFILE.captioning.embedder)
    vectors = embedder.embed_images([stored_image(item_by_item.blobs, one) for one in images])

    report = find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)
    assert report == wanted.report
    embed_shards(run, NAME, PROFILE.captioning.embedder)
    places = {row.number: row.image for row in rows_of(run, "import_source") if row.image}
    duplicates = {
        places[row.number]
        for row in rows_of(run, "near_duplicates")
        if RecordResult.of(row).rejections
    }
    assert duplicates == {one.id for one in images} - set(wanted.kept)
    embedded = {places[row.number]: row.vector for row in rows_of(run, "embed") if row.vector}
    expected = {one.id: vector.tobytes() for one, vector in zip(images, vectors, strict=True)}
    assert embedded == expected
    assert find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates).images == len(
        images
    )
    build(run, spec)
    drawn = {one.id for one in find(run.store, NAME, Image.kind)}
    assert drawn.isdisjoint(duplicates)


def test_the_last_search_for_near_duplicates_counts(run: RunContext, spec: SourceSpec) -> None:
    usual = PROFILE.captioning.near_duplicates
    exact = usual.model_copy(update={"spectrum_distance": 0.0})
    find_shard_duplicates(run, NAME, usual)
    first = rows_of(run, "near_duplicates")
    find_shard_duplicates(run, NAME, exact)
    assert rows_of(run, "near_duplicates") != first
    digests = rows_of(run, "import_source")[0].digests
    erase_records(run, NAME, digests)
    find_shard_duplicates(run, NAME, usual)
    last = rows_of(run, "near_duplicates")
    erased = {row.number for row in last if row.erased}
    assert erased == {row.number for row in rows_of(run, "import_source") if row.erased} != set()
    rejected = [
        {row.number for row in rows if RecordResult.of(row).rejections} - erased
        for rows in (first, last)
    ]
    assert rejected[0] == rejected[1]
    whole = SampleSettings(identities=25, images_per_identity=None, seed=0)
    _, report = promote_drawn(run, spec, whole)
    wanted = {row.number for row in rows_of(run, "import_source") if row.image and not row.erased}
    assert report.done == len(wanted - rejected[0])


def test_vectors_of_different_models_are_not_compared(
    run: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed_shards(run, NAME, PROFILE.captioning.embedder)
    real = ShardEmbedding.computed
    calls = iter(range(9))

    def interrupted(
        step: ShardEmbedding, rows: Sequence[ShardRow]
    ) -> list[tuple[RecordResult, bytes | None]]:
        if next(calls):
            raise ModelError("it ended")
        return real(step, rows)

    monkeypatch.setattr(ShardEmbedding, "computed", interrupted)
    threads = run.settings.model_copy(update={"engine": "threads"})  # worker processes load anew
    with pytest.raises(ModelError, match="it ended"):
        embed_shards(replace(run, settings=threads), NAME, BuiltinEmbedder())
    find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)  # of the first model
    embedded = [
        [one.id for one in computed_shards(run.store, shard) if one.group == ShardEmbedding.step]
        for shard in imported_shards(run.store, NAME)
    ]
    set_active(run.store, max(embedded, key=len)[:1], software(), active=False)
    with pytest.raises(UsageError, match="were embedded with different models"):
        find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)
    monkeypatch.undo()
    embed_shards(run, NAME, BuiltinEmbedder())
    find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)


def test_a_search_for_near_duplicates_ends_if_records_are_withdrawn_meanwhile(
    run: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed_shards(run, NAME, PROFILE.captioning.embedder)
    digests = rows_of(run, "import_source")[0].digests

    def read_late(blobs: BlobStore, shard: StoredEntity) -> list[ShardRow]:
        if shard.group == ShardEmbedding.step:
            erase_records(run, NAME, digests)
        return read_shard(blobs, shard)

    monkeypatch.setattr(steps, "read_shard", read_late)
    with pytest.raises(UsageError, match=r"^records of 'people' were withdrawn while near-dup"):
        find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)
    monkeypatch.undo()
    find_shard_duplicates(run, NAME, PROFILE.captioning.near_duplicates)


def test_records_of_one_shard_are_erased_by_several_runs_at_once(
    run: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, both_read = BlobStore.put_shard, Barrier(2)

    def put_late(blobs: BlobStore, root: str, data: bytes) -> None:
        with suppress(BrokenBarrierError):  # one at a time
            both_read.wait(0.5)
        real(blobs, root, data)

    monkeypatch.setattr(BlobStore, "put_shard", put_late)
    digests = [one.digests for one in rows_of(run, "import_source")[1:3]]
    with ThreadPoolExecutor() as pool:
        erased = list(pool.map(lambda digest: erase_records(run, NAME, digest), digests))
    assert erased == [1, 1]
    for step in ("import_source", "rewrite"):
        assert [row.number for row in rows_of(run, step) if row.erased] == [1, 2]


def test_a_damaged_shard_is_a_one_line_error(run: RunContext) -> None:
    first, second, third = imported_shards(run.store, NAME)
    paths = [
        Path(run.blobs.path_of(one.record(Shard).root, SHARD)) for one in (first, second, third)
    ]
    shutil.copy(paths[1], paths[0])
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    paths[2].unlink()
    for number, shard in ((0, 0), (20, 1)):
        with pytest.raises(
            IntegrityError, match=rf"^shard {shard} \(import_source\) of people is dam"
        ):
            promote_records(run, NAME, [number])
    with pytest.raises(IntegrityError, match=r"is missing; restore it from a backup$"):
        promote_records(run, NAME, [40])
    with pytest.raises(IntegrityError, match=r"shard .* is (damaged|missing)"):
        run_step(run, NAME, ShardFingerprints(run.blobs.url))
    assert len(list(damaged_shards(run, NAME))) == 3
    with pytest.raises(UsageError, match="have no record 50"):
        promote_records(run, NAME, [50])


def test_a_withdrawal_erases_promoted_and_unpromoted_records(run: RunContext) -> None:
    rows = rows_of(run, "import_source")
    digest = next(iter(rows[0].digests))
    assert find_records(run, NAME, [digest]) == [0, 17]  # the same file twice
    with pytest.raises(
        UsageError, match=r"^the shards of 'people' have no image with the SHA-256 f"
    ):
        find_records(run, NAME, ["3", digest, "f" * 64])
    promoted = promote_records(run, NAME, [3, 5])
    assert (promoted.done, promoted.rejected) == (1, {"missing_image": 1})

    def refuse(names: Sequence[str]) -> None:
        raise UsageError("; ".join(names))

    with pytest.raises(UsageError, match=r"^record 0 of the shards of 'people'; record 17 of"):
        promote_image(run, digest, refuse)
    assert fetch(run.store, [str(rows[0].image)]) == {}
    with pytest.raises(UsageError, match=r"^no image in the store or in shards has the SHA-256 f"):
        promote_image(run, "f" * 64)
    image = fetch(run.store, [promote_image(run, digest)])[str(rows[0].image)]
    texts = [one.payload for one in RecordResult.of(rows[0]).entities if one.kind == "caption"]
    request = request_of(WithdrawalTarget(sort="entity", name=image.id), "privacy", None)
    plan = plan_withdrawal(run.store, request)
    withdrawal = confirm(run.store, plan, "asked for", AgentRef("person", "operator"))
    carry_out(run, withdrawal)
    for step in ("import_source", "rewrite"):
        erased = [row.number for row in rows_of(run, step) if row.erased]  # the roots do not change
        assert erased == [0, 17]
    contents = "".join(row.result or "" for row in rows_of(run, "import_source"))
    assert not any(text in contents for text in texts)
    assert list(damaged_shards(run, NAME)) == []
    assert promote_records(run, NAME, [17]).rejected == {"withdrawn": 1}
    source = request_of(WithdrawalTarget(sort="source", name=NAME), "copyright", None)
    plan = plan_withdrawal(run.store, source)
    carry_out(run, confirm(run.store, plan, "not ours", AgentRef("person", "operator")))
    assert list(Path(run.blobs.url).glob("shards/*/*.parquet")) == []
