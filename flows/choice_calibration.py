"""Says how similar results are to their anchors, and where the bounds of the choice should lie."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.decisions import last_agents
from db.entities import StoredEntity, children_of, fetch, find, parents_of
from db.store import Store
from flows.choice_report import write_choice_report
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.image_choice import CONSIDERED_FOR
from flows.image_orders import ORDERED_BY
from flows.single import store_entity
from flows.task_images import picture_of, stored_picture
from schemas.contrast import (
    ChoiceCalibration,
    ChoiceSettings,
    ObservedResult,
    ResultsConsidered,
)
from schemas.contrast_records import FoundPicture
from schemas.proposals import Candidate
from stages.candidate_choice.calibration import calibrate_choice, unrelated_similarities

_MOST_SEARCHES = 200
"""Searches whose results are held against other anchors: their pairs are more than enough."""
_ACCEPTED = {"accepted": True, "rejected": False}


class CalibratedChoice(NamedTuple):
    """What was found, and the page that shows it."""

    calibration: ChoiceCalibration
    page: Path


def calibrate_choices(
    context: RunContext, dataset: str, settings: ChoiceSettings, embedder: CachedEmbedder
) -> CalibratedChoice | None:
    """Stores how similar results are, and writes the page `reports/<dataset>-choices.html`.

    None where no search gave a result.
    """
    searches = [
        (one, record)
        for one in find(context.store, dataset, ResultsConsidered.kind)
        if (record := one.record(ResultsConsidered)).results
    ]
    if not searches:
        return None
    people = _people_said(context.store, [one for one, _ in searches])
    observed = [
        ObservedResult(
            similarity=result.similarity,
            near_duplicate=result.verdict == "near_duplicate",
            accepted=people.get(one.id) if result.verdict == "chosen" else None,
        )
        for one, record in searches
        for result in record.results
    ]
    records = [record for _, record in searches]
    calibration = calibrate_choice(
        observed,
        len({record.anchor_id for record in records}),
        _unrelated(context, records[:_MOST_SEARCHES], embedder),
        settings,
        str(embedder.ref),
    )
    store_entity(context, calibration, dataset)
    page = context.settings.home / "reports" / f"{dataset}-choices.html"
    write_choice_report(calibration, observed, dataset, page)
    return CalibratedChoice(calibration, page)


def _people_said(store: Store, considered: Sequence[StoredEntity]) -> Mapping[str, bool]:
    """Of each search whose candidate people decided on, whether they accepted it."""
    orders = parents_of(store, [one.id for one in considered], CONSIDERED_FOR)
    made = children_of(store, [found[0] for found in orders.values()], ORDERED_BY)
    entities = fetch(store, {id_ for many in made.values() for id_ in many})
    judges = last_agents(store, list(entities))
    said = {
        order: _ACCEPTED[entities[id_].state]
        for order, many in made.items()
        for id_ in many
        if entities[id_].kind == Candidate.kind
        and entities[id_].state in _ACCEPTED
        and judges[id_].kind == "person"
    }
    return {one: said[found[0]] for one, found in orders.items() if found[0] in said}


def _unrelated(
    context: RunContext, records: Sequence[ResultsConsidered], embedder: CachedEmbedder
) -> NDArray[np.float64]:
    """The similarities of anchors to the results of others."""
    anchors = list(dict.fromkeys(record.anchor_id for record in records))
    place = {anchor: at for at, anchor in enumerate(anchors)}
    pairs = [(place[record.anchor_id], id_) for record in records for id_ in record.picture_ids]
    stored = fetch(context.store, [*anchors, *(id_ for _, id_ in pairs)])
    pictures = [picture_of(stored[anchor]) for anchor in anchors]
    pictures += [stored[id_].record(FoundPicture).picture for _, id_ in pairs]
    rows = embedder.embed_images([stored_picture(context, picture) for picture in pictures])
    owners = np.array([owner for owner, _ in pairs], np.int64)
    return unrelated_similarities(rows[: len(anchors)], rows[len(anchors) :], owners)
