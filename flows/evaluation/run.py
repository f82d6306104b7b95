"""Scores models on a release: reads it, embeds its images and texts, stores the result."""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError

from loupe.db.evaluations import Stored, store_evaluation
from loupe.db.withdrawals import list_withdrawals
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import (
    CHECKPOINT_FILES,
    CachedEmbedder,
    image_file,
    of_texts,
    pinned,
    read_ahead,
    read_image,
    read_vectors,
)
from loupe.flows.engine.software import code_revision, hardware
from loupe.flows.evaluation.leaderboard import FoundRelease, Leaderboard, collect, locate_release
from loupe.flows.evaluation.leaderboard_page import (
    Written,
    leaderboard_folder,
    render_markdown,
    write_leaderboard,
)
from loupe.flows.withdrawal.releases import known_notices, withdrawal_of
from loupe.models.embedding import Vectors
from loupe.models.profiles.loader import load_profile
from loupe.models.transformers_embedder import BlipFamily, load_transformers_embedder
from loupe.release.card.facts import is_all_drawn
from loupe.release.card.strata import strata_hint, strata_of_rows
from loupe.release.format.row_files import ReadRelease, read_release
from loupe.release.format.rows import ReleasedCaption, ReleaseRow
from loupe.retrieval.contrastive import (
    ContrastiveSamples,
    contrast_accuracy,
    contrast_similarity,
    contrastive_result,
    groups_by_difference,
    overall_accuracy,
)
from loupe.retrieval.distractors import benchmark_distractors
from loupe.retrieval.edit_measures import change_between
from loupe.retrieval.embeddings import Ids
from loupe.retrieval.evaluation import (
    INTERVAL,
    PROTOCOL,
    RERANKED,
    Scored,
    Side,
    score_direction,
    score_setting,
)
from loupe.retrieval.logistic import guess_methods
from loupe.retrieval.ranking import REPLICATES, Floats
from loupe.retrieval.score_matrix import Rerank, mean_vectors
from loupe.retrieval.shortcuts.opponents import Evidence, find_wanted
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    EmbedderSpec,
    EmbeddingModelSpec,
    PrecomputedEmbedder,
    TransformersEmbedder,
    directed,
)
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.evaluation import (
    DIRECTIONS,
    ContrastiveResult,
    Direction,
    EvaluatedModel,
    EvaluatedRelease,
    EvaluationResult,
    GroupResult,
    ShownItem,
)
from loupe.schemas.plugins import plugins
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.release import UNSTATED, Manifest
from loupe.schemas.validation import nearest_hint, rule_of

# Images and texts of a release as queries and gallery, with the groups they belong to.

_LENGTHS = {20: "1–20", 40: "21–40", 80: "41–80"}
"""Groups of texts by length, in words: the upper limit and the name."""
_UNKNOWN_TASK = "not known"
"""The group of images whose task is not known."""
Groups = dict[str, list[str]]


def sides(read: ReadRelease, images: Vectors, texts: Vectors) -> tuple[Side, Side]:
    """The images and the texts of a release with their vectors.

    Raises:
        UsageError: the number of vectors is wrong, or they cannot be compared.
    """
    shown = [shown_image(row) for row in read.rows]
    rows = [row for row in read.rows for _ in row.captions]
    wording = [_wording(caption) for row in read.rows for caption in row.captions]
    words = [
        length_group(len(caption.text.split())) for row in read.rows for caption in row.captions
    ]
    strata = strata_of_rows(read)
    of_images = {**_groups(read.manifest, list(read.rows)), **strata}
    of_texts = {**_groups(read.manifest, rows), "wording": wording, "words": words}
    for dimension, labels in strata.items():
        counted = zip(labels, read.rows, strict=True)
        of_texts[dimension] = [label for label, row in counted for _ in row.captions]
    return (
        Side.of(shown, images, _telling(of_images), "images"),
        Side.of(list(shown_texts(read)), texts, _telling(of_texts), "texts"),
    )


def _wording(caption: ReleasedCaption) -> str:
    """The style of a text: the model that rewrote it, or whether people did or nobody."""
    if not caption.is_rewrite:
        return "original"
    return "edited rewrite" if caption.origin == "edited_rewrite" else caption.author


def length_group(words: int) -> str:
    """The group of a text by its length."""
    return next((name for most, name in _LENGTHS.items() if words <= most), f"over {max(_LENGTHS)}")


def shown_image(row: ReleaseRow) -> ShownItem:
    """An image as evaluations store it."""
    return ShownItem(
        entity_id=row.image_entity_id,
        file_path=row.file_path,
        sha256=row.sha256,
        person=row.id,
        source=row.source,
    )


def shown_texts(read: ReadRelease) -> Iterator[ShownItem]:
    """The captions of all images, in the order of the release."""
    for row in read.rows:
        image = shown_image(row)
        for position, caption in enumerate(row.captions):
            fields = {"entity_id": caption.entity_id, "text": caption.text, "position": position}
            yield image.model_copy(update=fields)


def _image_names(read: ReadRelease) -> list[str]:
    return [row.file_path for row in read.rows]


def _text_names(read: ReadRelease) -> list[str]:
    names = []
    for row in read.rows:
        count = range(1, len(row.captions) + 1)
        names += [f"caption {place} of {row.file_path}" for place in count]
    return names


def _groups(manifest: Manifest, rows: list[ReleaseRow]) -> Groups:
    granularity = {one.name: one.granularity for one in manifest.sources if one.granularity}
    name = {source: f"{source} ({how})" for source, how in granularity.items()}
    return {
        "task": [row.task or _UNKNOWN_TASK for row in rows],
        "tier": [row.tier or UNSTATED for row in rows],
        "source": [name.get(row.source, row.source) for row in rows],
        "granularity": [granularity.get(row.source, UNSTATED) for row in rows],
    }


def _telling(groups: Groups) -> Groups:
    """The dimensions with several groups; of dimensions with the same groups, only the first."""
    divisions: dict[tuple[int, ...], str] = {}
    for dimension, labels in groups.items():
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        division = tuple(numbers[label] for label in labels)
        if len(numbers) > 1:
            divisions.setdefault(division, dimension)
    return {dimension: groups[dimension] for dimension in divisions.values()}


# Scoring a contrastive release (CCD).
#
# Queries are original samples; the gallery holds original and contrastive images (tables 2 and 4 of
# the paper). Other settings are those of its figure 4: with coarse captions, without contrastive
# images, or neither.

_CONTRASTIVE_PROTOCOL = (
    "queries are original samples, the gallery is of original and contrastive ones, by cosine; "
    "FG-CDA over pairs of an anchor and a contrastive image in both orders; ties count as errors"
)
_CONTRASTIVE_INTERVAL = (
    f"95 %, percentile bootstrap over images, of FG-CDA over groups, {REPLICATES:,} draws"
)
ORIGINAL, FINE, CONTRASTIVE = "original", "+ fine captions", "+ contrastive images"
BOTH, ALL_QUERIES = "both", "both, all as queries"
"""The settings of figure 4, and all samples as queries."""


def _is_contrastive(read: ReadRelease) -> bool:
    """Whether any image of the split differs from an anchor."""
    return any(row.contrast for row in read.rows)


def samples_of(read: ReadRelease) -> ContrastiveSamples:
    """The images of a release as the samples of a contrastive benchmark.

    Raises:
        IntegrityError: the anchor of an image is not in the split.
    """
    number = {row.file_path: at for at, row in enumerate(read.rows)}
    anchors = []
    for at, row in enumerate(read.rows):
        anchor = at if row.contrast is None else number.get(row.contrast.anchor)
        if anchor is None:
            raise IntegrityError(
                f"{read.folder}: the anchor of {row.file_path} is not in the split {read.split!r}"
            )
        anchors.append(anchor)
    return ContrastiveSamples(
        tuple(row.file_path for row in read.rows),
        np.array(anchors),
        tuple(row.contrast and row.contrast.difference for row in read.rows),
        np.array([len(row.captions) for row in read.rows]),
        tuple(row.contrast and row.contrast.method for row in read.rows),
        tuple(
            _changed_share(read.folder, row, read.rows[at])
            for row, at in zip(read.rows, anchors, strict=True)
        ),
    )


_AREA_SETTINGS = EditCheckSettings(side_px=128)  # thirds do not need more


def _changed_share(folder: Path, row: ReleaseRow, anchor: ReleaseRow) -> float | None:
    """The share of its anchor's area that an edit changed; None for images that are not edited."""
    if row.contrast is None or row.contrast.method != "edit":
        return None
    before, after = (
        read_image(image_file(one.sha256, folder / one.file_path)) for one in (anchor, row)
    )
    return float(change_between(before, after, _AREA_SETTINGS).mask.mean())


class ContrastiveSides(NamedTuple):
    """Images and texts of a release with their vectors, as one direction compares them.

    `texts` are fine captions; `coarse` is None if there are no coarse ones, or no vectors of them.
    """

    samples: ContrastiveSamples
    images: Side
    texts: Side
    coarse: Side | None

    def scored(self, direction: Direction) -> Scored:
        """The scores of a direction: R@k with its settings, and FG-CDA with its types."""
        samples, settings = self.samples, self._settings(direction)
        accuracy = contrast_accuracy(self.images.rows, self.texts.rows, samples)[direction]
        found = score_direction(direction, *settings[BOTH])
        scores = found.direction.scores | overall_accuracy(accuracy, samples)
        by_setting = (score_setting(name, direction, *one) for name, one in settings.items())
        groups = groups_by_difference(direction, accuracy, samples)
        return Scored(
            found.direction.model_copy(update={"scores": scores}),
            (*groups, *by_setting, *found.groups),
        )

    def result(self) -> ContrastiveResult:
        """The similarities of contrastive pairs, and with the nearest other samples.

        Images with several vectors are compared by the mean of these.
        """
        texts, samples = self.texts.rows, self.samples
        images = mean_vectors(self.images.rows, texts.shape[1])
        vectors = Evidence("vectors of the model", images.astype(np.float64))
        head = find_wanted("original image", vectors, samples.anchors, samples.is_original)
        found = contrastive_result(
            contrast_similarity(images, samples),
            benchmark_distractors(images, texts, samples.image_of_text),
            guess_methods(images, samples),
        )
        return found.model_copy(update={"original": head})

    def _settings(self, direction: Direction) -> dict[str, tuple[Side, Side]]:
        """Queries and gallery of each setting of figure 4, and of all samples as queries."""
        original = self.samples.is_original
        originals = self.images.chosen(original)
        fine = self.texts.chosen(original[self.samples.image_of_text])
        settings: tuple[tuple[str, Side | None, Side | None], ...]
        if direction == "text-to-image":
            settings = (
                (ORIGINAL, self.coarse, originals),
                (FINE, fine, originals),
                (CONTRASTIVE, self.coarse, self.images),
                (BOTH, fine, self.images),
                (ALL_QUERIES, self.texts, self.images),
            )
        else:
            settings = (
                (ORIGINAL, originals, self.coarse),
                (FINE, originals, fine),
                (BOTH, originals, self.texts),
                (ALL_QUERIES, self.images, self.texts),
            )
        return {
            name: (queries, gallery)
            for name, queries, gallery in settings
            if queries is not None and gallery is not None
        }


def _coarse_texts(read: ReadRelease) -> list[str]:
    """The coarse captions of all anchors, image by image; empty if an anchor has none."""
    anchors = [row for row in read.rows if row.contrast is None]
    if not all(row.coarse_captions for row in anchors):
        return []
    return [one.text for row in anchors for one in row.coarse_captions]


def _coarse_side(read: ReadRelease, shown: list[ShownItem], vectors: Vectors) -> Side:
    """The coarse captions with their vectors; `shown` are the images of the release."""
    items = [
        item.model_copy(update={"text": one.text, "position": position})
        for item, row in zip(shown, read.rows, strict=True)
        if row.contrast is None
        for position, one in enumerate(row.coarse_captions)
    ]
    return Side.of(items, vectors, {}, "coarse captions")


# Score a model on a release.

_ASKING: dict[Direction, Literal["images", "texts"]] = {
    "text-to-image": "texts",
    "image-to-text": "images",
}
_DIGEST_FIELDS = ("checkpoint_sha256", "folder_sha256")


class _Embedded(NamedTuple):
    """Vectors of a release's images, texts and, if it has any, coarse captions."""

    images: Vectors
    texts: Vectors
    coarse: Vectors | None = None


def evaluate_release(
    context: RunContext,
    folder: Path,
    spec: EmbedderSpec,
    *,
    split: str | None = None,
    check_images: bool = True,
) -> Stored:
    """Scores `spec` on a split of the release in `folder` and stores it.

    In both directions, or only from text to image if images have no captions. In a contrastive
    release the anchors are the queries.

    Args:
        context: stores, progress, code revision.
        folder: the release; files are compared with its manifest before they are used.
        spec: the model. Stored embeddings are reused.
        split: see `loupe.release.format.row_files.chosen_split`.
        check_images: see `loupe.release.format.row_files.read_release`. Images that are embedded
            are compared with their digests in any case.

    Raises:
        UsageError: there is no release or split, or the model cannot be used.
        IntegrityError: a file was changed.
        ModelError: the model cannot be loaded, or fails.
    """
    read = read_release(folder, split, check_images=check_images)
    spec = pinned(without_reranking(spec) if _is_contrastive(read) else spec)
    if hint := strata_hint(read):
        context.progress.say_once(hint)
    started = time.monotonic()
    embedded = _embedded(context, read, spec)
    embedding_seconds = time.monotonic() - started
    started = time.monotonic()
    if _is_contrastive(read):
        scored, contrasts = _contrastive(read, embedded)
        protocol = _CONTRASTIVE_PROTOCOL
    else:
        matching, contrasts = _matching(context, read, spec), None
        protocol = PROTOCOL + (RERANKED.format(matching.first) if matching else "")
        scored = []
        for one, vectors in embedded.items():
            asked = _asked(read, one, vectors)
            found = score_direction(one, *asked, rerank=matching.rerank(one) if matching else None)
            if matching is None:
                of_sources = tuple(_within_sources(read, one, *asked))
                found = found._replace(groups=(*found.groups, *of_sources))
            scored.append(found)
    result = EvaluationResult(
        release=EvaluatedRelease.model_validate(read.manifest, from_attributes=True),
        split=read.split,
        protocol=protocol,
        model=evaluated_model(spec),
        code_revision=code_revision(),
        hardware=hardware(),
        identities=len({row.id for row in read.rows}),
        images=len(read.rows),
        captions=sum(len(row.captions) for row in read.rows),
        directions=tuple(one.direction for one in scored),
        groups=tuple(group for one in scored for group in one.groups),
        interval=_CONTRASTIVE_INTERVAL if contrasts else INTERVAL,
        seconds=time.monotonic() - started,
        embedding_seconds=embedding_seconds,
        contrasts=contrasts,
    )
    return store_evaluation(context.store, result)


class _Matching:
    """The matching head of a model, for pairs of the images and texts of a release."""

    def __init__(self, model: BlipFamily, first: int, read: ReadRelease) -> None:
        files = [image_file(row.sha256, read.folder / row.file_path) for row in read.rows]
        seen: dict[str, Any] = {}
        for some, pictures in read_ahead(files):
            for file, picture in zip(some, pictures, strict=True):
                seen[file.sha256] = model.see([picture])[0].cpu()
        self._seen = [seen[row.sha256] for row in read.rows]
        self._texts = [caption.text for row in read.rows for caption in row.captions]
        self._model, self.first = model, first

    def rerank(self, direction: Direction) -> Rerank:
        """The reranking of the first items of a direction's queries."""
        if direction == "text-to-image":
            return Rerank(self.first, lambda texts, images: self._judge(images, texts))
        return Rerank(self.first, self._judge)

    def _judge(self, images: Ids, texts: Ids) -> Floats:
        seen = [self._seen[place] for place in images]
        return self._model.judge(seen, [self._texts[place] for place in texts])


def _matching(context: RunContext, read: ReadRelease, spec: EmbedderSpec) -> _Matching | None:
    if not isinstance(spec, TransformersEmbedder) or not spec.rerank:
        return None
    model = load_transformers_embedder(spec)
    if not isinstance(model, BlipFamily):
        raise UsageError(
            f"{spec.ref} has no matching head to rerank with; only BLIP and BLIP-2 have one"
        )
    context.progress.say(f"the first {spec.rerank} of each query are sorted by the matching head")
    return _Matching(model, spec.rerank, read)


def _contrastive(
    read: ReadRelease, embedded: dict[Direction, _Embedded]
) -> tuple[list[Scored], ContrastiveResult]:
    """The scores of all directions, and how similar contrastive pairs are.

    Pairs of images are compared by the vectors with which texts find them.
    """
    samples = samples_of(read)
    compared: dict[Direction, ContrastiveSides] = {}
    for direction, one in embedded.items():
        coarse = None
        if one.coarse is not None:
            coarse = _coarse_side(read, list(map(shown_image, read.rows)), one.coarse)
        compared[direction] = ContrastiveSides(samples, *sides(read, *one[:2]), coarse)
    scored = [sides_.scored(direction) for direction, sides_ in compared.items()]
    return scored, next(iter(compared.values())).result()


def _asked(read: ReadRelease, direction: Direction, embedded: _Embedded) -> tuple[Side, Side]:
    """Queries and gallery of a direction."""
    images, texts = sides(read, embedded.images, embedded.texts)
    return (texts, images) if direction == "text-to-image" else (images, texts)


def _within_sources(
    read: ReadRelease, direction: Direction, queries: Side, gallery: Side
) -> Iterator[GroupResult]:
    """Score the queries of each source among the images, or texts, of that source alone.

    The wording of a caption may tell its source, which then leaves out most of a gallery. Tasks
    have sources because of their content, so they are not scored like this.
    """
    sources = [row.source for row in read.rows]
    if len(set(sources)) < 2 or read.manifest.statistics.tasks:
        return
    of_texts = [row.source for row in read.rows for _ in row.captions]
    of_queries, of_gallery = (
        (of_texts, sources) if direction == "text-to-image" else (sources, of_texts)
    )
    for source in dict.fromkeys(sources):
        own = queries.chosen(np.array(of_queries) == source)
        yield score_setting(
            source,
            direction,
            own,
            gallery.chosen(np.array(of_gallery) == source),
            dimension="own gallery",
        )


def without_reranking(spec: EmbedderSpec) -> EmbedderSpec:
    """The model for contrastive samples: a matching head compares no pairs in FG-CDA."""
    is_reranked = isinstance(spec, TransformersEmbedder) and spec.rerank
    return spec.model_copy(update={"rerank": 0}) if is_reranked else spec


def evaluated_model(spec: EmbedderSpec) -> EvaluatedModel:
    """The model of a pinned specification, as evaluations name it."""
    digests = [getattr(spec, field, None) for field in _DIGEST_FIELDS]
    first = spec.rerank if isinstance(spec, TransformersEmbedder) else 0
    return EvaluatedModel(
        ref=spec.ref,
        provider=spec.provider,
        parameters=spec.parameters | ({"rerank": first} if first else {}),
        checkpoint_sha256=next(filter(None, digests), None),
        demonstration=spec.provider.startswith("builtin"),
    )


def _embedded(
    context: RunContext, read: ReadRelease, spec: EmbedderSpec
) -> dict[Direction, _Embedded]:
    """The vectors of each direction in which the release is scored.

    A model may take another instruction in each direction; precomputed vectors serve both.
    """
    texts = [caption.text for row in read.rows for caption in row.captions]
    # Images without captions are candidates only: then image to text is not scored (ReCoS' v2).
    directions = DIRECTIONS if all(row.captions for row in read.rows) else ("text-to-image",)
    if isinstance(spec, PrecomputedEmbedder):
        given = _Embedded(*read_vectors(spec, _image_names(read), _text_names(read)))
        return dict.fromkeys(directions, given)
    files = [image_file(row.sha256, read.folder / row.file_path) for row in read.rows]
    coarse = _coarse_texts(read) if _is_contrastive(read) else []
    known: dict[str, _Embedded] = {}
    found: dict[Direction, _Embedded] = {}
    for direction in directions:
        of_images = cast("EmbeddingModelSpec", directed(spec, _ASKING[direction]))
        key = of_images.model_dump_json()
        if key not in known:
            make = partial(
                CachedEmbedder,
                context.store,
                progress=context.progress,
                settings=context.settings,
            )
            images = make(of_images).embed_images(files)
            embedder = make(of_texts(of_images))
            known[key] = _Embedded(
                images,
                embedder.embed_texts(texts),
                embedder.embed_texts(coarse) if coarse else None,
            )
        found[direction] = known[key]
    return found


# `evaluate`: models that a request names, scored on a release, and its leaderboard.

_NAMED = re.compile(
    r"(?P<provider>open_clip|transformers|mllm):(?P<name>.+?)(@(?P<revision>[^@]+))?"
)
_OF_PLUGIN = "plugin:"
_SPEC: TypeAdapter[Any] = TypeAdapter(EmbedderSpec)


class EvaluationRequest(NamedTuple):
    """A release and the models to score on it, named by one of four options or by none.

    `release` is a folder, or a name as `loupe release show` takes it. `embedder` is `builtin`, or
    `PROVIDER:NAME@REVISION`; `checkpoint` the folder of a CFAM checkpoint; `embeddings` two `.npy`
    files, images and texts. Without any of them, the embedders of `profile` are scored, or those
    of the configured profile.
    """

    release: str
    profile: str | None = None
    checkpoint: str | None = None
    split: str | None = None
    check_images: bool = True
    embedder: str | None = None
    embeddings: tuple[Path, Path] | None = None
    name: str | None = None


@dataclass(frozen=True)
class EvaluationReport:
    """The evaluations of a run, and the leaderboard with them."""

    dataset: str
    stored: tuple[Stored, ...]
    board: Leaderboard
    written: Written

    @property
    def artifact(self) -> str:
        """The key of the report's artifact."""
        return f"{self.dataset}-leaderboard"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        results = [one.evaluation.result for one in self.stored]
        direction = results[0].directions[0].direction
        scores = [
            f"{one.model.ref} {one.directions[0].scores['R@1'].value:.1f} %" for one in results
        ]
        return f"R@1 of {direction}: {', '.join(scores)}; the leaderboard is {self.written.page}"

    @property
    def markdown(self) -> str:
        """The leaderboard."""
        return render_markdown(self.board)

    def as_json(self) -> dict[str, Any]:
        """The evaluations, for `--json`; `is_new` unless an equal one was stored before."""
        return {
            "dataset": self.dataset,
            "evaluations": [
                {**one.evaluation.as_json(), "is_new": one.is_new} for one in self.stored
            ],
            "comparisons": {
                one.direction: [comparison._asdict() for comparison in one.comparisons]
                for one in self.board.boards
            },
            "leaderboard": str(self.written.page),
        }


def run_evaluation(context: RunContext, request: EvaluationRequest) -> EvaluationReport:
    """Scores the models that `request` names and writes the leaderboard to the home.

    Raises:
        LoupeError: see `evaluate_release`; the results of earlier models are stored.
    """
    found = locate_release(context.store, request.release)
    if found.folder is None:
        raise UsageError(
            f"the files of {found.manifest.name} are not on this machine any more; name the folder "
            f"of a copy"
        )
    _warn_of_withdrawals(context, found)
    stored: list[Stored] = []
    for spec in requested_embedders(request, context.settings.profile):
        if spec.provider.startswith("builtin") and not is_all_drawn(found.manifest):
            context.progress.say(
                f"warning: {spec.ref} is built in and knows only the pictures of Loupe's "
                f"demonstrations; its scores mean nothing here"
            )
        check = request.check_images and not stored  # once is enough
        stored.append(
            evaluate_release(context, found.folder, spec, split=request.split, check_images=check)
        )
    board = collect(context.store, str(found.folder), request.split)
    written = write_leaderboard(board, leaderboard_folder(context.settings.home, board))
    return EvaluationReport(found.manifest.dataset, tuple(stored), board, written)


def _warn_of_withdrawals(context: RunContext, found: FoundRelease) -> None:
    """Warns about what was withdrawn from the release, and says what happens to its vectors."""
    known = known_notices(context.settings, context.store)
    withdrawal = withdrawal_of(found.manifest, found.folder, known)
    if withdrawal is None:
        return
    erasing = {one.key for one in list_withdrawals(context.store) if one.request.erases}
    release = found.manifest.id
    kept = ""
    if any(one.release == release and one.withdrawal in erasing for one in known):
        kept = "; what was erased is embedded for this result alone, and its vectors are not kept"
    context.progress.say(f"warning: {withdrawal.sentence}{kept}")


def requested_embedders(request: EvaluationRequest, profile: str) -> tuple[EmbedderSpec, ...]:
    """The models that a request names; those of `profile` if it names none.

    Raises:
        UsageError: it names models by several options, or a model that does not exist.
    """
    given = (request.profile, request.checkpoint, request.embedder, request.embeddings)
    if sum(one is not None for one in given) > 1:
        raise UsageError("use only one of --profile, --embedder, --checkpoint and --embeddings")
    if request.name is not None and not (request.checkpoint or request.embeddings):
        raise UsageError(
            "--name is only for --checkpoint and --embeddings; other models have a name"
        )
    if request.embeddings is not None:
        if request.name is None:
            raise UsageError("--embeddings needs --name, the name of the model on the leaderboard")
        images, texts = request.embeddings
        values = {"provider": "precomputed", "images": images, "texts": texts}
        return (_specified(values | {"name": request.name}, "--embeddings with --name"),)
    if request.checkpoint is not None:
        return (_cfam(Path(request.checkpoint), request.name),)
    if request.embedder is not None:
        return (named_embedder(request.embedder),)
    return load_profile(request.profile or profile).evaluation.embedders


def named_embedder(text: str) -> EmbedderSpec:
    """The embedder called `builtin`, `PROVIDER:NAME@REVISION`, or `plugin:NAME`.

    Raises:
        UsageError: `text` is neither.
    """
    if text == "builtin":
        return BuiltinEmbedder()
    if text == "builtin-stills":
        return BuiltinStillsEmbedder()
    if text.startswith(_OF_PLUGIN):
        name = text.removeprefix(_OF_PLUGIN)
        if name not in plugins("models"):
            hint = nearest_hint(name, plugins("models"))
            raise UsageError(f"no installed package adds the embedder {name!r}; {hint}")
        return _specified({"provider": "plugin", "name": name}, f"the embedder {text!r}")
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UsageError(
            f"an embedder must be 'builtin', 'builtin-stills', or like "
            f"'open_clip:ViT-B-16-quickgelu@openai', "
            f"'transformers:google/siglip2-base-patch16-224@main', 'mllm:NAME@REVISION' or "
            f"'plugin:NAME'; got {text!r}"
        )
    return _specified(match.groupdict(default="main"), f"the embedder {text!r}")


def _cfam(folder: Path, name: str | None) -> EmbedderSpec:
    if not folder.is_dir():
        raise UsageError(f"there is no checkpoint in {folder}: it is not a folder")
    for file in CHECKPOINT_FILES:
        if not (folder / file).is_file():
            raise UsageError(f"there is no checkpoint in {folder}: it holds no {file}")
    values = {"provider": "cfam", "checkpoint": folder.absolute()}
    return _specified(values if name is None else values | {"name": name}, "--checkpoint")


def _specified(values: Mapping[str, object], what: str) -> EmbedderSpec:
    """The embedder with these values; `what` is the option that gave them."""
    try:
        spec: EmbedderSpec = _SPEC.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"][-1] in ("name", "revision"):
            raise UsageError(
                f"{what}: a {first['loc'][-1]} must be at least one character, none of them a "
                f"control character; got {first['input']!r}"
            ) from error
        raise UsageError(f"{what}: {rule_of(first)}") from error
    return spec
