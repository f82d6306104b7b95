"""The configurations with which the stages of a dataset worked, and the checks among them."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from loupe.db.entities import LIVE, find, rows_in
from loupe.db.store import Store, reads
from loupe.db.tables import Activity, Entity, Plan
from loupe.schemas.video import StageSettings


@reads
def configurations_of(
    connection: Connection,
    stage: str,
    entity_ids: Iterable[str] | None = None,
    dataset: str | None = None,
) -> list[dict[str, Any]]:
    """Return the configurations of the plans of a stage, or of those that made these entities.

    They are in the order of the plans; with `dataset`, only of plans that worked for it.
    """
    query = select(Plan.configuration).where(Plan.stage == stage)
    if dataset is not None:
        worked = select(Activity.plan_id).where(Activity.dataset == dataset)
        query = query.where(Plan.id.in_(worked))
    if entity_ids is None:
        return list(connection.execute(query.order_by(Plan.id)).scalars())
    made = query.join(Activity, Activity.plan_id == Plan.id)
    made = made.join(Entity, Entity.activity_id == Activity.id)
    return [found for (found,) in rows_in(connection, made, Entity.id, entity_ids)]


@reads
def plans_like(connection: Connection, plan_id: int, without: Collection[str]) -> list[int]:
    """Return the plans that differ from a plan at most in which of some settings they link to."""

    def stated(configuration: dict[str, Any]) -> dict[str, Any]:
        links = [one for one in configuration.get("made_with", ()) if one not in without]
        return {**configuration, "made_with": links}

    stage, version, own = connection.execute(
        select(Plan.stage, Plan.version, Plan.configuration).where(Plan.id == plan_id)
    ).one()
    others = select(Plan.id, Plan.configuration).where(Plan.stage == stage, Plan.version == version)
    return [id_ for id_, of in connection.execute(others) if stated(of) == stated(own)]


JUDGING_STAGES = ("check_faithfulness",)
"""The stages that reject texts of models, although their answers were parsed."""


class AskedChecks(NamedTuple):
    """The checks of texts that a run asked for, by name, and their settings in the profile."""

    checks: tuple[str, ...]
    settings: dict[str, Any]


def asked_checks(store: Store, dataset: str) -> AskedChecks | None:
    """Return the checks of texts that the last run of a dataset asked for; None before any."""
    for one in find(store, dataset, StageSettings.kind, states=LIVE):
        settings = one.record(StageSettings)
        if settings.stage in JUDGING_STAGES:
            return AskedChecks(tuple(settings.values["checks"]), settings.values["settings"])
    return None
