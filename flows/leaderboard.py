"""The leaderboard of a release: every model that was scored on it, chance, and published rows."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from db.evaluations import StoredEvaluation, evaluations_of
from db.releases import find_release
from db.store import Store
from flows.leaderboard_contrasts import ContrastRow
from flows.leaderboard_groups import GroupTable, group_tables, ordered_metrics
from release.manifest import MANIFEST
from release.published import contrastive_dataset
from release.reading import chosen_split, read_listed
from retrieval.published import PublishedTable, published_on
from schemas.errors import UsageError
from schemas.evaluation import (
    DIRECTIONS,
    Direction,
    DirectionResult,
    EvaluatedModel,
    Scores,
)
from schemas.records import Split
from schemas.release import Manifest

RowKind = Literal["model", "chance"]


IMAGE_TO_TEXT: Direction = "image-to-text"


class Row(NamedTuple):
    """A line of a board: a model with its evaluation, or chance, which has none."""

    kind: RowKind
    name: str
    scores: Scores
    evaluation: StoredEvaluation | None = None
    found: DirectionResult | None = None


class Board(NamedTuple):
    """The scores of all models in one direction, the best first, chance last.

    `published` stand below: what papers print of the dataset that this release is like.
    """

    direction: Direction
    queries: int
    gallery: int
    unmatched: int
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    published: tuple[PublishedTable, ...]

    @property
    def models(self) -> tuple[Row, ...]:
        """The lines that are models."""
        return tuple(row for row in self.rows if row.kind == "model")

    @property
    def chance(self) -> Row | None:
        """The line of chance, where it is known."""
        return next((row for row in self.rows if row.kind == "chance"), None)


class Leaderboard(NamedTuple):
    """Everything that is shown of one split of a release.

    `folder` is where the release's files lie, None where they are not on this machine. Of several
    evaluations of one model the newest counts; `evaluations` counts all.
    """

    manifest: Manifest
    folder: Path | None
    split: Split
    like: str | None
    evaluations: int
    boards: tuple[Board, ...]
    tables: tuple[GroupTable, ...]

    @property
    def contrasts(self) -> tuple[ContrastRow, ...]:
        """What is told of contrastive pairs, model by model, in the order of the first board."""
        return tuple(
            ContrastRow(row.name, row.evaluation.result.contrasts)
            for row in (self.boards[0].models if self.boards else ())
            if row.evaluation is not None and row.evaluation.result.contrasts is not None
        )

    @property
    def unscored(self) -> dict[Direction, str]:
        """The direction that nobody was scored in because images have no captions, with words."""
        statistics = self.manifest.statistics
        if not statistics.candidates or any(one.direction == IMAGE_TO_TEXT for one in self.boards):
            return {}
        of = f"{statistics.candidates:,} of the {statistics.images:,} images"
        return {IMAGE_TO_TEXT: f"Image to text is not scored: {of} have no captions to be found."}


class FoundRelease(NamedTuple):
    """A release by its manifest, and its folder where that is there."""

    manifest: Manifest
    folder: Path | None


def locate_release(store: Store, name: str) -> FoundRelease:
    """The release in the folder `name`, or the one that was built here and is called so.

    Raises:
        UsageError: there is none.
        IntegrityError: the manifest in that folder is not one, or was changed.
    """
    folder = Path(name)
    if (folder / MANIFEST).is_file():
        return FoundRelease(read_listed(folder)[0], folder)
    if folder.is_dir():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
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
    like = published_dataset(found.manifest)
    boards = [_board(direction, newest, names, like) for direction in DIRECTIONS]
    return Leaderboard(
        found.manifest,
        found.folder,
        split,
        like,
        len(stored),
        tuple(board for board in boards if board.rows),
        tuple(group_tables(newest, names)),
    )


def published_dataset(manifest: Manifest) -> str | None:
    """The published dataset that a release has the form of, if any.

    A contrastive benchmark is like MSCOCO-CCD, or Flickr30k-CCD where it is made of Flickr30k; a
    benchmark of tasks like the version of ReCoS that it is a version of, or like v1, the standard
    one. What is cut out of videos, or was published as UFine6926, is like UFine6926;
    sources of several granularities together, or what was published as UFine3C, like UFine3C.
    """
    if like := contrastive_dataset(manifest):
        return like
    if manifest.statistics.tasks:
        return f"ReCoS {manifest.tier or 'v1'}"
    formats = {source.format for source in manifest.sources}
    granularities = {source.granularity for source in manifest.sources} - {None}
    if formats == {"ufine3c"} or (len(granularities) > 1 and not manifest.videos):
        return "UFine3C"
    if manifest.videos or formats == {"ufine6926"}:
        return "UFine6926"
    return None


def model_names(evaluations: Sequence[StoredEvaluation]) -> list[str]:
    """A name for each model; where two are called the same, with what tells them apart."""
    models = [one.result.model for one in evaluations]
    plain = Counter(str(model.ref) for model in models)
    return [
        str(model.ref) if plain[str(model.ref)] == 1 else f"{model.ref} {_apart(model)}"
        for model in models
    ]


def _apart(model: EvaluatedModel) -> str:
    digest = model.checkpoint_sha256
    return f"({digest[:8]})" if digest else f"({model.key[:8]})"


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
    )


def _rank(scores: Scores, metrics: tuple[str, ...]) -> tuple[float, ...]:
    """What models are ordered by: their percentages in the order of the columns."""
    shown = [metric for metric in metrics if metric != "median_rank"]
    return tuple(-scores[metric].value if metric in scores else 0.0 for metric in shown)
