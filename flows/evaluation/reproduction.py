"""`loupe reproduce`: a table of a paper, trained and scored on the releases at hand.

Finished work is reused: trainings are stored in a folder named by settings and release, evaluations
in the store.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationInfo

from loupe.db.evaluations import evaluations_of
from loupe.db.releases import list_releases
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import pinned
from loupe.flows.evaluation.leaderboard import (
    FoundRelease,
    compared_with_best,
    locate_release,
    published_dataset,
)
from loupe.flows.evaluation.run import (
    evaluate_release,
    evaluated_model,
    named_embedder,
    without_reranking,
)
from loupe.flows.evaluation.training import RECORD, TrainingRequest, load_training, run_training
from loupe.release.format.row_files import chosen_split
from loupe.retrieval.published import named_datasets
from loupe.retrieval.reproduction import Experiment, PublishedScores, experiments_of, model_names
from loupe.schemas.base import Record, canonical_json, digest_of
from loupe.schemas.cfam import CfamTraining
from loupe.schemas.embedding import CfamEmbedder, EmbedderSpec
from loupe.schemas.errors import ConfigurationError, LoupeError, UsageError
from loupe.schemas.evaluation import DIRECTIONS, DirectionResult, EvaluationResult
from loupe.schemas.text_files import read_settings
from loupe.schemas.validation import nearest_hint, placed, validated

_KEYS = "docs/reproduction.md"
_TRAINED = 250.0
_EMBEDDED = {"cfam": 800.0, "open_clip": 400.0, "transformers": 200.0, "mllm": 25.0}
"""Pairs trained, and images and texts embedded, per second of one H100: assumed, not measured."""
ASSUMED = (
    f"GPU hours are for one H100 at assumed, not measured speeds: {_TRAINED:g} pairs trained, or "
    + ", ".join(f"{speed:g} ({kind})" for kind, speed in _EMBEDDED.items())
    + " images and texts embedded per second, fewer by large models"
)

# The user's own file: releases, models, settings.


class OwnModel(Record):
    """A model that replaces those of some rows, on one dataset or on all."""

    rows: tuple[str, ...]
    dataset: str | None = None
    embedder: EmbedderSpec


def _placed_training(named: str, info: ValidationInfo) -> str:
    return str(placed(Path(named), info)) if named.endswith(".toml") else named


def _placed_release(named: str, info: ValidationInfo) -> str:
    path = placed(Path(named), info)
    return str(path) if path.is_dir() else named


class Reproduction(Record):
    """A file for `loupe reproduce`: the releases of the datasets, and models to use.

    `training` is a training file, or a name that `loupe train --config` takes: the settings that a
    row's changes are applied to. Releases are folders or names.
    """

    training: Annotated[str, AfterValidator(_placed_training)] = "paper"
    releases: dict[str, Annotated[str, AfterValidator(_placed_release)]] = Field(
        default_factory=dict
    )
    models: tuple[OwnModel, ...] = ()


def load_reproduction(path: Path) -> Reproduction:
    """The settings in a file; relative paths are relative to the file.

    Raises:
        ConfigurationError: the file is missing or not TOML, or a key is unknown or wrong.
    """
    what = f"reproduction file {path}"
    own = read_settings(path, Reproduction, what, see=_KEYS)
    datasets = {*own.releases, *(one.dataset for one in own.models if one.dataset)}
    rows = {row for one in own.models for row in one.rows}
    for kind, named, known in (
        ("dataset", datasets, [*named_datasets()]),
        ("row", rows, model_names()),
    ):
        for name in sorted(named.difference(known)):
            raise ConfigurationError(
                f"{what}: no table has a {kind} {name!r}; {nearest_hint(name, known)}"
            )
    return own


# What a table needs, and what is available.


class Need(NamedTuple):
    """A split of a dataset: the release used for it, or what is missing."""

    dataset: str
    split: Literal["train", "test"]
    release: FoundRelease | None
    missing: str

    @property
    def folder(self) -> Path:
        """The folder of the release.

        Raises:
            UsageError: there is no release.
        """
        if self.release is None or self.release.folder is None:
            raise UsageError(f"no {self.split} split of {self.dataset}: {self.missing}")
        return self.release.folder

    @property
    def size(self) -> int:
        """The number of training pairs, or of images and texts; without a release as published."""
        if self.release is None:
            return self.published_size
        splits = {one.split: one for one in self.release.manifest.statistics.splits}
        if self.split == "train":
            return splits["train"].captions
        one = splits[chosen_split(self.release.manifest, None)]
        return one.images + one.captions

    @property
    def published_size(self) -> int:
        """The same for the published dataset."""
        known = named_datasets()[self.dataset]
        return known.train_pairs if self.split == "train" else sum(known.test)


@dataclass(frozen=True)
class PlannedRow:
    """A row, what it needs, and its state."""

    experiment: Experiment
    needs: tuple[Need, ...]
    state: Literal["done", "to do", "no data", "no model", "failed"]
    reason: str = ""
    training: CfamTraining | None = None
    home: Path | None = None
    embedder: EmbedderSpec | None = None
    result: EvaluationResult | None = None

    @property
    def is_available(self) -> bool:
        """Whether Loupe can compute the row, given the data."""
        return self.training is not None or self.embedder is not None

    @property
    def is_trained(self) -> bool:
        """Whether its training is done, or it needs none."""
        return self.training is None or (self.home is not None and (self.home / RECORD).exists())

    @property
    def costs(self) -> Iterator[tuple[str, float]]:
        """The GPU hours of its training and of its evaluation, each with a key."""
        own, test = self.experiment.recipe.per_second, self.needs[-1]
        if self.training is not None and not self.is_trained:
            pairs = self.needs[0].size * self.training.schedule.epochs
            hours = pairs / (own or _TRAINED) / 3600
            yield f"{self.needs[0].dataset} {self.training}", hours
        kind = "cfam" if self.embedder is None else self.embedder.provider
        if kind in _EMBEDDED:  # the others compute nothing
            speed = _EMBEDDED[kind] if self.training or own is None else own
            yield f"{self.training} {self.embedder} {test.dataset}", test.size / speed / 3600


@dataclass(frozen=True)
class Plan:
    """The chosen rows of a table."""

    table: str
    rows: tuple[PlannedRow, ...]

    @property
    def needs(self) -> tuple[Need, ...]:
        """The distinct needs of all rows that Loupe can compute."""
        found = {
            (need.dataset, need.split): need
            for row in self.rows
            if row.is_available
            for need in row.needs
        }
        return tuple(found.values())

    @property
    def gpu_hours(self) -> float:
        """The GPU hours of all remaining work; work that rows share counts once."""
        left = (row for row in self.rows if row.state != "done")
        return sum(dict(cost for row in left for cost in row.costs).values())

    @property
    def summary(self) -> dict[str, Any]:
        """The number of rows, how many Loupe can compute, their cost, and the missing datasets."""
        return {
            "table": self.table,
            "rows": len(self.rows),
            "available": sum(row.is_available for row in self.rows),
            "gpu_hours": round(self.gpu_hours, 1),
            "missing": list(dict.fromkeys(one.dataset for one in self.needs if one.missing)),
        }

    def as_json(self) -> dict[str, Any]:
        """The plan and its results, for `--json`."""
        return {
            "table": self.table,
            "gpu_hours_left": round(self.gpu_hours, 2),
            "assumed": ASSUMED,
            "data": [
                {
                    "dataset": need.dataset,
                    "split": need.split,
                    "release": need.release and str(need.release.folder),
                    "missing": need.missing or None,
                    "items": need.size if need.release else None,
                    "published_items": need.published_size,
                }
                for need in self.needs
            ],
            "comparisons": list(_comparisons(self.rows)),
            "rows": [
                {
                    "label": row.experiment.label,
                    "row": row.experiment.model,
                    "trained_on": row.experiment.trained_on or None,
                    "dataset": row.experiment.dataset,
                    "state": row.state,
                    "reason": row.reason or None,
                    "note": row.experiment.recipe.note or None,
                    "embedder": row.embedder and str(row.embedder.ref),
                    "training": row.home and str(row.home),
                    "evaluation": row.result and row.result.id,
                    "scores": [
                        {
                            "direction": line.direction,
                            "disputed": line.disputed or None,
                            "metrics": _compared(row, line),
                        }
                        for line in row.experiment.published
                    ],
                }
                for row in self.rows
            ],
        }


def _compared(row: PlannedRow, published: PublishedScores) -> dict[str, dict[str, Any]]:
    """The published scores of a row in one direction and ours by metric, in percent.

    FG-CDE is by type of difference and by aspect. `distinguishable` says whether the published
    score is outside of the 95 % interval of ours; None without an interval.
    """
    direction = published.direction
    found = row.result.direction(direction) if row.result else None
    ours = dict(found.scores) if found else {}
    for group in row.result.groups if row.result else ():
        if group.dimension in ("difference", "aspect") and group.direction == direction:
            ours[group.group] = group.scores["FG-CDE"]
    compared = {}
    for name, value in published.scores.items():
        one = ours.get(name)
        is_outside = None
        if one is not None and one.low is not None and one.high is not None:
            is_outside = not one.low <= value <= one.high
        compared[name] = {
            "published": value,
            "ours": one and one.value,
            "low": one and one.low,
            "high": one and one.high,
            "difference": one and round(one.value - value, 2),
            "distinguishable": is_outside,
        }
    return compared


def _comparisons(rows: Sequence[PlannedRow]) -> Iterator[dict[str, Any]]:
    """Compare our models of a table on the same queries with the best of them, in R@1."""
    evaluated = [row for row in rows if row.result is not None]
    for direction in DIRECTIONS:
        by_release: dict[tuple[str, str], dict[str, DirectionResult]] = {}
        for row in evaluated:
            result = row.result
            found = result.direction(direction) if result else None
            if result is not None and found is not None and "R@1" in found.scores:
                models = by_release.setdefault((result.release.id, result.split), {})
                models[row.experiment.label] = found
        for models in by_release.values():
            ranked = sorted(models.items(), key=lambda one: -one[1].scores["R@1"].value)
            for comparison in compared_with_best(ranked):
                sentence = comparison.sentence or None
                yield {"direction": direction, **comparison._asdict(), "sentence": sentence}


def plan_table(
    store: Store, home: Path, table: str, rows: tuple[str, ...], own: Reproduction
) -> Plan:
    """The rows of a table with what is available, missing and done.

    Raises:
        UsageError: there is no such table, row or release.
        ConfigurationError: the training file, or a row's changes of it, are not valid.
    """
    at_hand = _Data(store, own)
    base = load_training(own.training)
    planned = (
        _planned(one, at_hand, base, own, home / "trainings") for one in experiments_of(table, rows)
    )
    return Plan(table, tuple(_with_result(store, row) for row in planned))


class _Data:
    """The releases used for datasets: the named ones, else the newest that resembles each."""

    def __init__(self, store: Store, own: Reproduction) -> None:
        self._named = {name: locate_release(store, where) for name, where in own.releases.items()}
        self._known: dict[str, FoundRelease] = {}
        for one in sorted(list_releases(store), key=lambda one: one.built_at):
            like = published_dataset(one.manifest)
            if like and not one.manifest.demonstration and one.folder.is_dir():
                self._known[like] = FoundRelease(one.manifest, one.folder)

    def need(self, dataset: str, split: Literal["train", "test"]) -> Need:
        """The release for a split of a dataset, or what is missing."""
        found = self._named.get(dataset) or self._known.get(dataset)
        if found is None:
            return Need(dataset, split, None, named_datasets()[dataset].how_to_get)
        if found.folder is None:
            return Need(dataset, split, None, f"the files of {found.manifest.dataset} are gone")
        splits = {one.split for one in found.manifest.statistics.splits}
        if split not in splits and (split == "train" or len(splits) > 1):
            return Need(dataset, split, None, f"{found.folder} has no {split} split")
        return Need(dataset, split, found, "")


def _planned(
    experiment: Experiment, data: _Data, base: CfamTraining, own: Reproduction, home: Path
) -> PlannedRow:
    """The row of an experiment; its reason says how the user's settings differ from the paper's."""
    recipe, test = experiment.recipe, data.need(experiment.dataset, "test")
    chosen = _own_embedder(experiment, own)
    if chosen is not None:
        reason = f"scored with {chosen.ref} instead"
        row = PlannedRow(experiment, (test,), "to do", reason, embedder=chosen)
    elif recipe.training is not None:
        train = data.need(experiment.trained_on, "train")
        training = _changed(base, recipe.training)
        is_paper = own.training == Reproduction().training
        reason = "" if is_paper else f"trained with {own.training}, not as in the paper"
        row = PlannedRow(experiment, (train, test), "to do", reason, training)
        if train.release is not None:
            key = _training_key(training, train.release)
            folder = home / f"reproduce-{key}"
            name = f"CFAM on {experiment.trained_on} {key[:8]}"
            embedder = CfamEmbedder(provider="cfam", name=name, checkpoint=folder / "best")
            row = replace(row, home=folder, embedder=embedder)
    elif recipe.unavailable:
        return PlannedRow(experiment, (test,), "no model", recipe.unavailable)
    else:
        named = named_embedder(recipe.embedder)
        named = type(named).model_validate(named.model_dump() | recipe.options)
        row = PlannedRow(experiment, (test,), "to do", embedder=named)
    if missing := ", ".join(f"{one.dataset} ({one.split})" for one in row.needs if one.missing):
        return replace(row, state="no data", reason=missing)
    return row


def _own_embedder(experiment: Experiment, own: Reproduction) -> EmbedderSpec | None:
    for one in own.models:
        if experiment.model in one.rows and one.dataset in (None, experiment.dataset):
            return one.embedder
    return None


def _changed(base: CfamTraining, changes: dict[str, Any]) -> CfamTraining:
    values = base.model_dump()
    for table, changed in changes.items():
        values[table] = values[table] | changed
    return validated(CfamTraining, values, f"the changes {changes} of a row")


def _training_key(training: CfamTraining, release: FoundRelease) -> str:
    settings = training.model_dump(mode="json", exclude={"name", "device", "workers"})
    return digest_of(release.manifest.id, canonical_json(settings))[:16]


def _with_result(store: Store, row: PlannedRow) -> PlannedRow:
    """The row with its newest evaluation, if any."""
    release = row.needs[-1].release
    if release is None or row.embedder is None or row.state == "no data" or not row.is_trained:
        return row
    split, name = chosen_split(release.manifest, None), row.embedder.ref.name
    stored = evaluations_of(store, release.manifest.id, split)
    results = [one.result for one in stored if one.result.model.ref.name == name]
    if not results:  # then nothing has to be pinned, which may need the network
        return row
    try:
        spec = pinned(row.embedder)
    except LoupeError:  # such as a hub model while offline: the run tries again
        return row
    own, on_contrasts = (evaluated_model(one).key for one in (spec, without_reranking(spec)))
    same = [one for one in results if one.model.key == (on_contrasts if one.contrasts else own)]
    return replace(row, state="done", result=same[-1]) if same else row


# Run the remaining work.


def run_plan(context: RunContext, plan: Plan) -> Plan:
    """Trains and scores the remaining rows of a plan; a failed row does not stop the others."""
    rows: list[PlannedRow] = []
    for row in plan.rows:
        current = _with_result(context.store, row)  # an earlier row may have been the same
        if current.state == "to do":
            context.progress.say(f"{plan.table}: {row.experiment.label}")
            try:
                current = replace(current, state="done", result=_run(context, current))
            except LoupeError as error:
                current = replace(current, state="failed", reason=str(error))
                context.progress.say(f"{row.experiment.label} failed: {error}")
        rows.append(current)
    return Plan(plan.table, tuple(rows))


def _run(context: RunContext, row: PlannedRow) -> EvaluationResult:
    if not row.is_trained:
        folder = str(row.needs[0].folder)
        run_training(TrainingRequest(folder, row.training, str(row.home), True), context.progress)
    if row.embedder is None:
        raise UsageError(f"{row.experiment.label}: {row.reason}")
    return evaluate_release(context, row.needs[-1].folder, row.embedder).evaluation.result
