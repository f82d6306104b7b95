"""The leaderboard of a release: every model that was scored, chance, and published rows."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from loupe.db.evaluations import StoredEvaluation, evaluations_of
from loupe.db.releases import find_release
from loupe.db.store import Store
from loupe.release.card.published import contrastive_dataset
from loupe.release.format.manifest import MANIFEST, release_folder
from loupe.release.format.row_files import ListedRelease, chosen_split
from loupe.retrieval.paired import corrected_for_best, paired_difference
from loupe.retrieval.published import PublishedTable, named_datasets, published_on
from loupe.schemas.base import Split
from loupe.schemas.errors import UsageError
from loupe.schemas.evaluation import (
    CONTRAST_METRICS,
    DIRECTIONS,
    METRICS,
    ContrastiveResult,
    Direction,
    DirectionResult,
    EvaluationResult,
    GroupResult,
    Score,
    Scores,
)
from loupe.schemas.quality import wilson_interval
from loupe.schemas.release import ChoiceStatistics, Manifest
from loupe.schemas.shortcuts import BlindResult, ShortcutQuestion
from loupe.schemas.taxonomy import RetrievalTask

# Scores by group of queries: the tables of a leaderboard.

_TASKS = tuple(task.value for task in RetrievalTask)
_OF_PAIRS = ("difference", "aspect", "method", "area")
_OWN_GALLERY = "own gallery"
"""Queries of one source among the images, or texts, of that source alone."""
_OF_PERSONS = ("source", "granularity", "wording", "words")
"""The domains, granularities, styles and lengths of UFine3C, which are compared by mSD, too."""
_RECALLS = 3  # of the metrics; those of contrastive pairs follow them
_STRATA_NOTE = (
    "People by what the captions of their image state, not by what it shows; nobody was asked. "
    "(few): fewer than 30 people, whose scores say little."
)
_NOTES = {
    **dict.fromkeys(("sex", "age", "skin", "clothing"), _STRATA_NOTE),
    "difference": "Pairs of an anchor and an image that differs from it in one detail, in both "
    "orders, by the type of that detail; ties are errors. FG-CDE is 100 − FG-CDA.",
    "aspect": "The same pairs, types of one aspect pooled.",
    "method": "The same pairs by how the contrastive image was obtained. A model that is right "
    "far more often on edited images than on found ones may see the traces of the editor.",
    "area": "The pairs with an edited image by the share of the anchor's area that was changed. A "
    "model that is right only where the area is large sees how much differs, but not what.",
    _OWN_GALLERY: "Queries of one source in a gallery of that source alone. If the wording of a "
    "caption tells its source, a model can leave out the others; here that does not help.",
    "setting": "Queries are original samples. original: coarse captions, original images; + fine "
    "captions: fine captions instead; + contrastive images: coarse captions, and contrastive "
    "images in the gallery, too; both: fine captions and contrastive images, as in the table "
    "above. Contrastive images have no coarse captions, so image to text lacks that setting.",
}


class GroupRow(NamedTuple):
    """A model's scores in each group of a table; None where it was not scored on one."""

    name: str
    cells: tuple[GroupResult | None, ...]


class GroupTable(NamedTuple):
    """One metric by model and group of queries, in one direction.

    `groups` has the number of queries of each group, or of contrastive pairs (see `counted`).
    """

    dimension: str
    direction: Direction
    metric: str
    groups: dict[str, int]
    rows: tuple[GroupRow, ...]

    @property
    def counted(self) -> str:
        """What is counted in `groups`: queries, or contrastive pairs."""
        return "pairs" if self.dimension in _OF_PAIRS else "queries"

    @property
    def note(self) -> str:
        """An explanation of the table; empty if it needs none."""
        return _NOTES.get(self.dimension, "")


def ordered_metrics(metrics: Iterable[str]) -> tuple[str, ...]:
    """Metrics in the order in which they are shown; unknown ones last, by name."""
    order = (*METRICS[:_RECALLS], *CONTRAST_METRICS, *METRICS[_RECALLS:])
    known = {metric: place for place, metric in enumerate(order)}
    return tuple(sorted(metrics, key=lambda metric: (known.get(metric, len(known)), metric)))


def _group_tables(
    evaluations: Sequence[StoredEvaluation], names: dict[str, str]
) -> Iterable[GroupTable]:
    """Tables for each direction and dimension, in the order in which they were scored."""
    results = [one.result for one in evaluations]
    for direction in DIRECTIONS:
        found = [one for result in results for one in result.groups if one.direction == direction]
        for dimension in dict.fromkeys(one.dimension for one in found):
            chosen = [one for one in found if one.dimension == dimension]
            first, *others = ordered_metrics({name for one in chosen for name in one.scores})
            yield _group_table(chosen, results, names, first)
            if dimension in _OF_PERSONS and "mSD" in others:
                yield _group_table(chosen, results, names, "mSD")


def _group_table(
    chosen: Sequence[GroupResult],
    results: Sequence[EvaluationResult],
    names: dict[str, str],
    metric: str,
) -> GroupTable:
    dimension, direction = chosen[0].dimension, chosen[0].direction
    groups = {one.group: one.queries for one in sorted(chosen, key=_place)}
    rows = []
    for result in results:
        cells = {
            one.group: one
            for one in result.groups
            if (one.dimension, one.direction) == (dimension, direction)
        }
        rows.append(GroupRow(names[result.id], tuple(cells.get(group) for group in groups)))
    rows.sort(key=lambda row: [-_value(cell, metric) for cell in row.cells])
    return GroupTable(dimension, direction, metric, groups, tuple(rows))


def _place(result: GroupResult) -> int:
    """Sorts tasks in the order of the paper and everything else in the order of scoring."""
    is_task = result.dimension == "task" and result.group in _TASKS
    return _TASKS.index(result.group) if is_task else len(_TASKS)


def _value(cell: GroupResult | None, metric: str) -> float:
    return cell.scores[metric].value if cell and metric in cell.scores else 0.0


# How similar contrastive pairs are for each model (CCD, figure 5), and other samples (table 1).


class ContrastRow(NamedTuple):
    """A model and the similarities that it gives to samples."""

    name: str
    found: ContrastiveResult

    @property
    def nearest(self) -> dict[str, str]:
        """Mean cosines with the five nearest other samples, and `MethodGuess`, as text."""
        guess = self.found.methods
        methods = "–"
        if guess is not None:
            methods = (
                f"{guess.accuracy:.1f} % ({guess.low:.1f} … {guess.high:.1f}); by its anchor "
                f"{guess.of_anchors:.1f} %; always the more frequent {guess.most_frequent:.1f} %"
            )
        means = {"images": self.found.nearest_images, "texts": self.found.nearest_texts}
        texts = {side: "–" if mean is None else f"{mean:.3f}" for side, mean in means.items()}
        return {"name": self.name, **texts, "methods": methods, "originals": self._originals}

    @property
    def _originals(self) -> str:
        """How often a linear head on its image vectors finds the original of a group."""
        if (head := self.found.original) is None:
            return "–"
        return (
            f"{head.right:.1f} % ({head.low:.1f} … {head.high:.1f}); "
            f"by chance {head.chance:.1f} %, p = {head.p_value:.4f}"
        )


# The leaderboard of a release: every model that was scored on it, chance, and published rows.

RowKind = Literal["model", "chance", "blind", "people"]
_TESTED: dict[Direction, str] = {
    "text-to-image": "caption-to-image",
    "image-to-text": "image-to-caption",
}
"""The direction of a forced-choice test, by the direction in which models are scored."""
_ASKED: dict[Direction, tuple[ShortcutQuestion, ...]] = {
    "text-to-image": (
        "original image",
        "matching pair",
        "source of a caption",
        "image with captions",
    ),
    "image-to-text": ("original captions", "matching pair"),
}
"""The questions to blind opponents that concern a direction."""
_COMPARED = "R@1"
_SIGNIFICANT = 0.05


_IMAGE_TO_TEXT: Direction = "image-to-text"


class Row(NamedTuple):
    """A row of a board: a model with its evaluation, chance, a blind opponent, or people."""

    kind: RowKind
    name: str
    scores: Scores
    evaluation: StoredEvaluation | None = None
    found: DirectionResult | None = None


class Comparison(NamedTuple):
    """A model compared with the best one on the same queries.

    `p_value` is corrected for all pairs of the models that are compared (Bonferroni), because the
    best one is known from the same queries.
    """

    name: str
    best: str
    metric: str
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def sentence(self) -> str:
        """The comparison in words; empty if the models are clearly different."""
        if self.p_value < _SIGNIFICANT:
            return ""
        return (
            f"{self.name} is not distinguishable from {self.best} in {self.metric}: "
            f"{self.difference:.2f} points below it (95 %: {self.low:.2f} to {self.high:.2f}), "
            f"p = {self.p_value:.2f}"
        )


class Board(NamedTuple):
    """The scores of all models in one direction: the best first, then people, chance, opponents.

    `published` are the tables of papers about the dataset that this release resembles.
    `comparisons` are of each further model with the first, in the first metric.
    """

    direction: Direction
    queries: int
    gallery: int
    unmatched: int
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    published: tuple[PublishedTable, ...]
    comparisons: tuple[Comparison, ...] = ()

    @property
    def models(self) -> tuple[Row, ...]:
        """The rows of models."""
        return tuple(row for row in self.rows if row.kind == "model")


class Leaderboard(NamedTuple):
    """Everything that is shown about one split of a release.

    `folder` holds the release's files; None if they are not on this machine. If a model was
    evaluated several times, the newest evaluation counts.
    """

    manifest: Manifest
    folder: Path | None
    split: Split
    like: str | None
    boards: tuple[Board, ...]
    tables: tuple[GroupTable, ...]

    @property
    def contrasts(self) -> tuple[ContrastRow, ...]:
        """The results on contrastive pairs of each model, in the order of the first board."""
        return tuple(
            ContrastRow(row.name, row.evaluation.result.contrasts)
            for row in (self.boards[0].models if self.boards else ())
            if row.evaluation is not None and row.evaluation.result.contrasts is not None
        )

    @property
    def unscored(self) -> dict[Direction, str]:
        """The direction that is not scored because images have no captions, and the reason."""
        statistics = self.manifest.statistics
        if not statistics.candidates or any(one.direction == _IMAGE_TO_TEXT for one in self.boards):
            return {}
        of = f"{statistics.candidates:,} of the {statistics.images:,} images"
        return {_IMAGE_TO_TEXT: f"Image to text is not scored: {of} have no captions to be found."}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the scores: what is not scored, and which models they may favour."""
        chose = {one.embedder for one in self.manifest.embedders}
        form = self.manifest.form
        chose |= (
            {name for one in form.steps if one.selects for name in one.models} if form else set()
        )
        names = {
            row.name: None
            for one in self.boards
            for row in one.models
            if row.evaluation is not None and str(row.evaluation.result.model.ref) in chose
        }
        favoured = (
            f"{name} also chose images or validated captions of this release, which may favour it."
            for name in names
        )
        return (*self.unscored.values(), *favoured, *self._blind_notes)

    @property
    def _blind_notes(self) -> Iterable[str]:
        """How to read the rows of blind opponents and of people, if there are any."""
        kinds = {row.kind for one in self.boards for row in one.rows}
        if "blind" in kinds:
            yield (
                "Rows with blind: opponents that cannot see the content (the card says what they "
                "use). Their R@1 is among the images, or captions, of the right group only."
            )
        if "people" in kinds:
            yield "Rows with people: a test among six options, not in the whole gallery."


class FoundRelease(NamedTuple):
    """The manifest of a release, and its folder if that exists."""

    manifest: Manifest
    folder: Path | None


def locate_release(store: Store, name: str) -> FoundRelease:
    """The release in the folder `name`, or the one of that name that was built here.

    Raises:
        UsageError: there is no such release.
        IntegrityError: the manifest in that folder is invalid or was changed.
    """
    if (folder := release_folder(name)) is not None:
        return FoundRelease(ListedRelease(folder).manifest, folder)
    found = find_release(store, name)
    there = (found.folder / MANIFEST).is_file()
    return FoundRelease(found.manifest, found.folder if there else None)


def collect(store: Store, name: str, split: str | None = None) -> Leaderboard:
    """The leaderboard of a release; see `locate_release` for `name`.

    Raises:
        UsageError: there is no such release or split, or no model was scored on it.
    """
    found = locate_release(store, name)
    chosen = chosen_split(found.manifest, split)
    stored = evaluations_of(store, found.manifest.id, chosen)
    if not stored:
        raise UsageError(
            f"no model was scored on the {chosen} split of {found.manifest.dataset} "
            f"{found.manifest.version} yet; run: loupe evaluate {found.folder or name}"
        )
    return arranged(found, chosen, stored)


def arranged(found: FoundRelease, split: Split, stored: Sequence[StoredEvaluation]) -> Leaderboard:
    """The leaderboard of these evaluations of a release."""
    newest = list({one.result.model.key: one for one in stored}.values())
    names = dict(zip((one.result.id for one in newest), model_names(newest), strict=True))
    is_drawn = found.manifest.demonstration  # published scores on photographs are no comparison
    like = None if is_drawn else published_dataset(found.manifest)
    boards = [
        _with_references(_board(direction, newest, names, like), found.manifest, split)
        for direction in DIRECTIONS
    ]
    return Leaderboard(
        found.manifest,
        found.folder,
        split,
        like,
        tuple(board for board in boards if board.rows),
        tuple(_group_tables(newest, names)),
    )


def _with_references(board: Board, manifest: Manifest, split: Split) -> Board:
    """The board with what people reach in forced-choice tests, and opponents that see nothing."""
    if not board.rows:
        return board
    *models, chance = board.rows if board.rows[-1].kind == "chance" else (*board.rows, None)
    people = [
        _people(one)
        for one in manifest.statistics.choices
        if one.direction == _TESTED[board.direction] and one.total
    ]
    certificate = manifest.shortcuts
    blind: list[Row] = []
    if certificate is not None and certificate.split == split:
        for question in _ASKED[board.direction]:
            asked = [one for one in certificate.results if one.question == question]
            blind += map(_blind, sorted(asked, key=lambda one: (-one.right, one.opponent)))
    rows = (*models, *people, *([chance] if chance else ()), *blind)
    return board._replace(rows=rows)


def _people(one: ChoiceStatistics) -> Row:
    low, high = wilson_interval(one.correct, one.total)
    score = Score(value=100 * one.correct / one.total, low=100 * low, high=100 * high)
    name = f"people: {one.tester}, among six similar ones ({one.total:,} answers)"
    return Row("people", name, {_COMPARED: score})


def _blind(one: BlindResult) -> Row:
    """The row of an opponent. What tells classes has no score in a column, and says so itself."""
    if one.metric == "accuracy":
        name = f"blind: {one.opponent}, {one.question} in {one.right:.1f} % (chance {one.chance})"
        return Row("blind", name, {})
    name = f"blind: {one.opponent}, {_WITHIN[one.metric]} (chance {one.chance})"
    return Row("blind", name, {one.metric: Score(value=one.right, low=one.low, high=one.high)})


_WITHIN = {"R@1": "the right group known", "FG-CDA": "of two"}


def published_dataset(manifest: Manifest) -> str | None:
    """The published dataset that a release resembles, if any.

    - a contrastive benchmark: MSCOCO-CCD, or Flickr30k-CCD if its images are from Flickr30k
    - a benchmark of tasks: the version of ReCoS of its tier, by default v1
    - images from videos, or UFine6926 itself: UFine6926
    - sources of several granularities, or UFine3C itself: UFine3C
    - images and captions of one published dataset, none of them by a model: that dataset
    """
    if like := contrastive_dataset(manifest):
        return like
    if manifest.statistics.tasks:
        return f"ReCoS {manifest.tier or 'v1'}"
    formats = {source.format for source in manifest.sources}
    granularities = {source.granularity for source in manifest.sources} - {None}
    if formats == {"ufine3c"} or (len(granularities) > 1 and not manifest.videos):
        return "UFine3C"
    if manifest.videos:
        return "UFine6926"
    if len(formats) != 1 or manifest.models:
        return None
    (only,) = formats
    names = [name for name, one in named_datasets().items() if one.format == only]
    return names[0] if len(names) == 1 else None


def model_names(evaluations: Sequence[StoredEvaluation]) -> list[str]:
    """A name for each model; equal names get a digest that distinguishes them."""
    models = [one.result.model for one in evaluations]
    times = Counter(str(model.ref) for model in models)
    return [
        str(model.ref) if times[str(model.ref)] == 1 else f"{model.ref} ({model.key[:8]})"
        for model in models
    ]


def _board(
    direction: Direction,
    evaluations: Iterable[StoredEvaluation],
    names: dict[str, str],
    like: str | None,
) -> Board:
    rows = [
        Row("model", names[one.result.id], found.scores, one, found)
        for one in evaluations
        if (found := one.result.direction(direction)) is not None
    ]
    first = rows[0].found if rows else None
    metrics = ordered_metrics({metric for row in rows for metric in row.scores})
    rows.sort(key=lambda row: _rank(row.scores, metrics))
    comparisons = tuple(compared_with_best([(row.name, row.found) for row in rows]))
    if first is not None and first.chance:
        rows.append(Row("chance", "chance", first.chance, found=first))
    return Board(
        direction,
        first.queries if first else 0,
        first.gallery if first else 0,
        first.unmatched if first else 0,
        metrics,
        tuple(rows),
        published_on(like, direction) if like else (),
        comparisons,
    )


def compared_with_best(
    models: Sequence[tuple[str, DirectionResult | None]],
) -> Iterable[Comparison]:
    """Compare every model with the first, which is the best one.

    Evaluations without values by person, or of other queries, are left out.
    """
    if not models:
        return
    (best, first), *others = models
    ours = first.by_person if first else None
    for name, other in others:
        theirs = other.by_person if other else None
        if ours is None or theirs is None or ours.queries != theirs.queries:
            continue
        best_hits, hits = 100 * np.array(ours.hits), 100 * np.array(theirs.hits)
        found = paired_difference(best_hits, hits, ours.queries)
        p_value = corrected_for_best(found.p_value, len(models))
        yield Comparison(name, best, _COMPARED, found.difference, found.low, found.high, p_value)


def _rank(scores: Scores, metrics: tuple[str, ...]) -> tuple[float, ...]:
    """The sort key of models: their percentages in the order of the columns."""
    shown = [metric for metric in metrics if metric != "median_rank"]
    return tuple(-scores[metric].value if metric in scores else 0.0 for metric in shown)


# Metrics and scores as text, on the leaderboard and on the terminal.


def column_title(metric: str) -> str:
    """The column title of a metric: its name in words."""
    return metric.replace("_", " ")


def score_text(score: Score | None, metric: str) -> str:
    """A score as text: percentages with two decimals, ranks as short as possible."""
    return "–" if score is None else _score(score.value, metric)


def interval_text(score: Score | None, metric: str) -> str:
    """The interval of a score; empty if it has none."""
    if score is None or score.low is None or score.high is None:
        return ""
    return f"{_score(score.low, metric)}–{_score(score.high, metric)}"


def _score(value: float, metric: str) -> str:
    return f"{value:,.10g}" if metric == "median_rank" else f"{value:.2f}"


# The leaderboard as JSON: every figure of the page.


def leaderboard_document(board: Leaderboard) -> dict[str, Any]:
    """All tables, and the evaluations behind them in full."""
    manifest = board.manifest
    evaluations = {
        row.evaluation.result.id: row.evaluation
        for one in board.boards
        for row in one.models
        if row.evaluation is not None
    }
    return {
        "dataset": manifest.dataset,
        "version": manifest.version,
        "release_id": manifest.id,
        "demonstration": manifest.demonstration,
        "split": board.split,
        "like": board.like,
        "unscored": board.unscored,
        "boards": [_board_document(one) for one in board.boards],
        "tables": [_table_document(one) for one in board.tables],
        "nearest": [one.nearest for one in board.contrasts],
        "evaluations": [one.as_json() for one in evaluations.values()],
    }


def _board_document(board: Board) -> dict[str, Any]:
    rows = [
        {
            "kind": row.kind,
            "name": row.name,
            "evaluation": row.evaluation.result.id if row.evaluation else None,
            "scores": {name: one.model_dump() for name, one in row.scores.items()},
        }
        for row in board.rows
    ]
    published = [table.model_dump(mode="json") for table in board.published]
    comparisons = [one._asdict() for one in board.comparisons]
    return board._asdict() | {"rows": rows, "published": published, "comparisons": comparisons}


def _table_document(table: GroupTable) -> dict[str, Any]:
    rows = [
        {
            "name": row.name,
            "scores": {
                group: cell.scores[table.metric].model_dump()
                for group, cell in zip(table.groups, row.cells, strict=True)
                if cell is not None and table.metric in cell.scores
            },
        }
        for row in table.rows
    ]
    return table._asdict() | {"rows": rows}
