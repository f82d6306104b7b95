"""Evaluating models on a release: scores against literal definitions, the cache, wrong usage."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loupe.db.evaluations import evaluations_of
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import Progress, StageReport
from loupe.flows.evaluation.run import (
    EvaluationRequest,
    evaluate_release,
    length_group,
    named_embedder,
    requested_embedders,
    sides,
)
from loupe.models.embedding import Vectors
from loupe.models.registry import build_embedder
from loupe.release.build import build_release
from loupe.release.format.row_files import ReadRelease, read_release
from loupe.retrieval.evaluation import chance_scores
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    OpenClipEmbedder,
    TransformersEmbedder,
)
from loupe.schemas.errors import UsageError
from loupe.schemas.evaluation import DirectionResult, EvaluationResult
from loupe.schemas.plugins import plugins
from tests.flows.command_line import Loupe
from tests.flows.evaluation_samples import saved_vectors
from tests.flows.worlds import write_people
from tests.models.tiny_embedders import build_blip2
from tests.release.worlds import small_world, store_world
from tests.retrieval.literal_retrieval import literal_query, literal_scores

LITERAL = ("R@1", "R@5", "R@10", "mAP", "mSD", "mINP", "median_rank")


class RecordedProgress(Progress):
    """Records the reports of stages."""

    def __init__(self) -> None:
        self.reports: list[StageReport] = []

    def end(self, report: StageReport) -> None:
        self.reports.append(report)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("released")
    world = store_world(home, small_world().contents())
    build_release(world.store, world.blobs, "ufine3c", "1.0.0", home / "release")
    world.store.close()
    return home / "release"


@pytest.fixture
def read(released: Path) -> ReadRelease:
    return read_release(released)


class RandomVectors:
    """Random vectors for a release, saved as files."""

    def __init__(self, read: ReadRelease, folder: Path, seed: int = 3) -> None:
        chance = np.random.default_rng(seed)
        centres = {row.id: chance.normal(size=6) for row in read.rows}
        people = [row.id for row in read.rows for _ in row.captions]
        self.images = np.array([centres[row.id] + chance.normal(size=6) for row in read.rows])
        self.texts = np.array([centres[person] + chance.normal(size=6) for person in people])
        self.spec = saved_vectors(folder, "given", self.images, self.texts)
        self.paths = (self.spec.images, self.spec.texts)


@pytest.fixture
def given(read: ReadRelease, tmp_path: Path) -> RandomVectors:
    return RandomVectors(read, tmp_path)


@pytest.fixture
def result(home_run: RunContext, released: Path, given: RandomVectors) -> EvaluationResult:
    return evaluate_release(home_run, released, given.spec).evaluation.result


def test_texts_are_grouped_by_number_of_words() -> None:
    lengths = {1: "1–20", 20: "1–20", 21: "21–40", 80: "41–80", 81: "over 80"}
    assert {words: length_group(words) for words in lengths} == lengths


def units(rows: np.ndarray[Any, Any]) -> Vectors:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def values(found: DirectionResult | None, names: tuple[str, ...] = LITERAL) -> list[float]:
    assert found is not None
    return [found.scores[name].value for name in names]


def test_scores_equal_those_of_the_literal_definitions(
    result: EvaluationResult, read: ReadRelease, given: RandomVectors
) -> None:
    images, texts = sides(read, units(given.images), units(given.texts))
    for direction, queries, gallery in (
        ("text-to-image", texts, images),
        ("image-to-text", images, texts),
    ):
        found = result.direction(direction)  # type: ignore[arg-type]
        literal = literal_scores(queries.rows, gallery.rows, list(queries.ids), list(gallery.ids))
        assert values(found) == pytest.approx([literal[name] for name in LITERAL], abs=1e-4)
        assert found is not None
        assert (found.queries, found.gallery) == (len(queries.items), len(gallery.items))
        for name in ("R@1", "mAP", "mSD", "mINP"):
            score = found.scores[name]
            assert score.low is not None
            assert score.high is not None
            assert score.low <= score.value <= score.high
            assert score.low < score.high
        assert found.rank_curve[0] == pytest.approx(found.scores["R@1"].value)
        assert len(found.rank_curve) == len(found.chance_curve) == min(50, len(gallery.items))
        matches = [int((gallery.ids == one).sum()) for one in queries.ids]
        expected = chance_scores(matches, len(gallery.items))
        assert {name: one.value for name, one in found.chance.items()} == expected


def test_each_group_is_scored_against_the_whole_gallery(
    result: EvaluationResult, read: ReadRelease, given: RandomVectors
) -> None:
    images, texts = sides(read, units(given.images), units(given.texts))
    found = {
        (one.dimension, one.group): one
        for one in result.groups
        if one.direction == "text-to-image" and one.dimension != "own gallery"
    }
    assert {dimension for dimension, _ in found} == {"source", "wording", "words"}
    for (dimension, group), one in found.items():
        chosen = [place for place, name in enumerate(texts.groups[dimension]) if name == group]
        ids = [int(texts.ids[place]) for place in chosen]
        literal = literal_scores(texts.rows[chosen], images.rows, ids, list(images.ids))
        assert one.queries == len(chosen)
        for name in LITERAL:
            assert one.scores[name].value == pytest.approx(literal[name], abs=1e-4)
    assert {group for dimension, group in found if dimension == "source"} == {
        "CUHK-PEDES (coarse)",
        "ICFG-PEDES (medium)",
        "UFine6926 (fine)",
    }
    assert {one.dimension for one in result.groups if one.direction == "image-to-text"} == {
        "source",
        "own gallery",
    }


def test_each_source_is_also_scored_in_its_own_gallery(
    result: EvaluationResult, read: ReadRelease, given: RandomVectors
) -> None:
    images, texts = sides(read, units(given.images), units(given.texts))
    own = [one for one in result.groups if one.dimension == "own gallery"]
    assert len(own) == 6
    for one in own:
        of_images, of_texts = (
            np.array([item.source == one.group for item in side.items]) for side in (images, texts)
        )
        asked = (texts.chosen(of_texts), images.chosen(of_images))
        queries, gallery = asked if one.direction == "text-to-image" else asked[::-1]
        literal = literal_scores(
            queries.rows, gallery.rows, list(map(int, queries.ids)), list(gallery.ids)
        )
        assert one.queries == len(queries.items)
        assert one.scores["R@1"].value == pytest.approx(literal["R@1"], abs=1e-4)


def test_the_hardest_queries_list_what_they_retrieved(
    result: EvaluationResult, read: ReadRelease, given: RandomVectors
) -> None:
    images = {row.file_path: units(given.images)[place] for place, row in enumerate(read.rows)}
    captions = [caption.entity_id for row in read.rows for caption in row.captions]
    found = result.direction("text-to-image")
    assert found is not None
    ranks = [hard.first_match_rank for hard in found.hardest]
    assert ranks == sorted(ranks, reverse=True)
    assert len({hard.query.person for hard in found.hardest}) == len(ranks) > 0
    assert min(ranks) > 1
    for hard in found.hardest:
        vector = units(given.texts)[captions.index(hard.query.entity_id)]
        for one in hard.retrieved:
            similarity = float(images[one.item.file_path] @ vector)
            assert one.similarity == pytest.approx(similarity, abs=1e-6)
            better = sum(float(other @ vector) > one.similarity + 1e-6 for other in images.values())
            assert one.rank == better + 1
            assert one.is_match is (one.item.person == hard.query.person)
        first = next(one for one in hard.retrieved if one.is_match)
        assert first.rank == hard.first_match_rank


def test_other_vectors_with_the_same_name_are_another_model(
    home_run: RunContext, released: Path, read: ReadRelease, given: RandomVectors, tmp_path: Path
) -> None:
    first = evaluate_release(home_run, released, given.spec)
    again = evaluate_release(home_run, released, given.spec)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.evaluation == first.evaluation
    other = evaluate_release(home_run, released, RandomVectors(read, tmp_path, seed=4).spec)
    assert other.is_new
    assert other.evaluation.result.model.key != first.evaluation.result.model.key
    assert len(evaluations_of(home_run.store, read.manifest.id)) == 2


def test_vectors_of_a_model_are_embedded_once(home_run: RunContext, released: Path) -> None:
    first, second = (replace(home_run, progress=RecordedProgress()) for _ in range(2))
    one = evaluate_release(first, released, BuiltinEmbedder())
    two = evaluate_release(second, released, BuiltinEmbedder())
    assert isinstance(first.progress, RecordedProgress)
    assert isinstance(second.progress, RecordedProgress)
    assert first.progress.reports[0].done == 12
    assert second.progress.reports == []
    assert two.evaluation == one.evaluation
    assert one.evaluation.result.model.demonstration


def test_the_command_stores_the_evaluation_and_writes_the_leaderboard(
    loupe: Loupe, released: Path, given: RandomVectors, home: Path
) -> None:
    images, texts = given.paths
    done = loupe("evaluate", released, "--embeddings", images, texts, "--name", "given", "--json")
    assert done.exit_code == 0, done.err
    (evaluation,) = done.json["evaluations"]
    assert evaluation["is_new"]
    assert Path(done.json["leaderboard"]).is_file()
    again = loupe("evaluate", released, "--embeddings", images, texts, "--name", "given")
    assert again.exit_code == 0
    assert "given@1" in again.out
    for column in ("mSD", "median rank"):
        assert column in again.out
    assert re.search(r"│ +\d+(\.5)? │$", again.out, re.MULTILINE)
    assert "stored results, not computed again: 1" in again.out
    assert loupe("evaluate", released, "--profile", "builtin").exit_code == 0
    board = json.loads(Path(done.json["leaderboard"]).with_suffix(".json").read_text("utf-8"))
    rows = [row["name"] for row in board["boards"][0]["rows"]]
    assert sorted(rows) == ["chance", "given@1", "loupe-colour-lexicon@1"]


def test_wrong_usage_gives_a_one_sentence_error(
    loupe: Loupe, released: Path, given: RandomVectors, tmp_path: Path
) -> None:
    images, texts = given.paths
    for arguments, expected in (
        ([tmp_path], "there is no release in"),
        ([released, "--split", "train"], "has no split 'train'; it has test"),
        (
            [released, "--embedder", "clip"],
            "an embedder must be 'builtin', 'builtin-stills', or like",
        ),
        ([released, "--embedder", "builtin", "--profile", "small"], "use only one of"),
        ([released, "--checkpoint", tmp_path / "none"], "there is no checkpoint in"),
        ([released, "--embeddings", images, texts], "--embeddings needs --name"),
        ([released, "--embedder", "builtin", "--name", "x"], "--name is only for"),
        ([released, "--embeddings", texts, images, "--name", "x"], "must have a row for each of"),
        ([released, "--embeddings", images, tmp_path, "--name", "x"], "is not a file"),
        ([released, "--embeddings", images, texts, "--name", ""], "at least one character"),
        ([released, "--embeddings", images, texts, "--name", "a\tb"], "control character"),
        ([released, "--checkpoint", tmp_path], "it holds no model.safetensors"),
        ([released, "--profile", "huge"], "there is no profile 'huge'"),
    ):
        ended = loupe("evaluate", *arguments)
        assert ended.exit_code == 2, arguments
        assert expected in " ".join(ended.err.split()), arguments
        assert "Traceback" not in ended.err


def test_a_damaged_release_is_not_evaluated(
    loupe: Loupe, released: Path, given: RandomVectors, tmp_path: Path, home_store: Store
) -> None:
    copy = shutil.copytree(released, tmp_path / "copy")
    image = copy / "images" / "1.jpg"
    image.write_bytes(image.read_bytes()[:-1] + b"\0")
    arguments = ("--embeddings", *given.paths, "--name", "given")
    ended = loupe("evaluate", copy, *arguments)
    assert ended.exit_code == 1
    assert "images/1.jpg is damaged or was changed" in " ".join(ended.err.split())
    assert evaluations_of(home_store, read_release(released).manifest.id) == []
    unchecked = loupe("evaluate", copy, *arguments, "--no-check-images")
    assert unchecked.exit_code == 0
    embedding = loupe("evaluate", copy, "--embedder", "builtin", "--no-check-images")
    assert embedding.exit_code == 1
    assert "Traceback" not in embedding.err


def test_an_embedder_is_parsed_from_provider_name_and_revision() -> None:
    assert named_embedder("builtin") == BuiltinEmbedder()
    assert named_embedder("builtin-stills") == BuiltinStillsEmbedder()
    clip = named_embedder("open_clip:ViT-B-16-quickgelu@openai")
    assert clip == OpenClipEmbedder(
        provider="open_clip", name="ViT-B-16-quickgelu", revision="openai"
    )
    assert named_embedder("transformers:google/siglip-base-patch16-256") == TransformersEmbedder(
        provider="transformers", name="google/siglip-base-patch16-256", revision="main"
    )
    with pytest.raises(UsageError, match="'builtin', 'builtin-stills', or like"):
        named_embedder("word2vec:x")
    installed = next(iter(plugins("models")))
    assert named_embedder(f"plugin:{installed}").ref.name == installed
    with pytest.raises(UsageError, match="no installed package adds the embedder 'x'"):
        named_embedder("plugin:x")


def test_a_name_must_be_printable(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for file in ("model.safetensors", "settings.json"):
        (folder / file).touch()
    asked = EvaluationRequest("r", checkpoint=str(folder), name="mine")
    assert str(requested_embedders(asked, "small")[0].ref) == "mine@checkpoint"
    with pytest.raises(UsageError, match=r"--checkpoint: a name must be at least one character"):
        requested_embedders(asked._replace(name="a\n"), "small")
    with pytest.raises(UsageError, match=r"a revision must be at least one character"):
        named_embedder("open_clip:ViT-B-16@\x07")


def test_without_an_embedder_those_of_the_current_profile_are_evaluated() -> None:
    small = requested_embedders(EvaluationRequest("r"), "small")
    assert [one.provider for one in small] == ["open_clip", "transformers"]
    assert requested_embedders(EvaluationRequest("r", profile="builtin"), "small") == (
        BuiltinEmbedder(),
    )


def test_an_imported_dataset_is_released_and_evaluated(loupe: Loupe, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    annotations = write_people(folder, "coarse", identities=4, images=2, captions=2)  # type: ignore[arg-type]
    rows = json.loads(annotations.read_text(encoding="utf-8"))
    for row in rows:
        row["split"] = "train" if row["id"] == 1 else "test"
    annotations.write_text(json.dumps(rows), encoding="utf-8")
    terms = ("--licence", "CC0-1.0", "--citation", "nobody", "--name", "people")
    assert loupe("import", "ufine6926", annotations, *terms).exit_code == 0
    out = tmp_path / "release"
    built = loupe("release", "build", "people", "--version", "1.0.0", "--out", out)
    assert built.exit_code == 0, built.err
    done = loupe("evaluate", "people", "--embedder", "builtin", "--json").json
    (found,) = done["evaluations"]
    assert (found["split"], found["images"], found["captions"], found["identities"]) == (
        *("test", 6, 12, 3),
    )
    board = json.loads(Path(done["leaderboard"]).with_suffix(".json").read_text("utf-8"))
    assert board["like"] == "UFine6926"


def test_blip2_is_evaluated_with_maximum_cosine_and_reranking(
    home_run: RunContext, released: Path, tmp_path: Path, read: ReadRelease
) -> None:
    mean = TransformersEmbedder(
        provider="transformers", name=str(build_blip2(tmp_path / "m")), revision="1", device="cpu"
    )
    greatest = mean.model_copy(update={"scoring": "maximum"})
    whole = greatest.model_copy(update={"rerank": 2})
    found = [
        evaluate_release(home_run, released, spec).evaluation.result
        for spec in (mean, greatest, whole)
    ]
    assert len({one.model.key for one in found}) == 3
    assert ["the first 2 of each query" in one.protocol for one in found] == [False, False, True]
    pictures = [Image.open(released / row.file_path) for row in read.rows]
    ends = build_embedder(greatest).embed_images(pictures)
    vectors = 2 * ends.reshape(len(read.rows), 4, 16)  # four of unit length
    texts = build_embedder(mean).embed_texts(
        [one.text for row in read.rows for one in row.captions]
    )
    people = [row.id for row in read.rows for _ in row.captions]
    literal = [
        literal_query((vectors @ text).max(axis=1).tolist(), [row.id == one for row in read.rows])
        for text, one in zip(texts, people, strict=True)
    ]
    ranks = [one.first_rank for one in literal if one is not None]
    result = found[1].direction("text-to-image")
    assert result is not None
    assert result.scores["R@1"].value == pytest.approx(100 * np.mean(np.array(ranks) == 1))
    assert result.histogram is None
    for one in found[2].directions:
        assert "mSD" not in one.scores
        assert one.scores["R@5"].value >= 0
