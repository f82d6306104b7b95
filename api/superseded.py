"""Rejections that no longer hold: by earlier versions of steps, or of what no longer counts."""

from collections.abc import Iterator, Mapping
from typing import Any

from loupe.api.parts import STEP_PREFIX, without_code
from loupe.db.entities import LIVE, fetch, find
from loupe.db.quarantine import RejectingPlan, Superseded, rejecting_plans
from loupe.db.store import Store
from loupe.flows.engine.asked import made_with_others
from loupe.schemas.records import Source
from loupe.schemas.video import READ_SOURCES, StageSettings


def superseded(store: Store, dataset: str) -> Superseded:
    """Return which rejections no longer hold of the pipeline that built a dataset.

    Those hold that the parts and sources of its last run made, of items that count. Of a paper's
    pipeline, all hold but those of steps with other settings.
    """
    settings: dict[str, StageSettings] = {}
    parts: dict[str, Any] = {}
    read: list[str] = []
    for one in find(store, dataset, StageSettings.kind):
        record = settings[one.id] = one.record(StageSettings)
        if one.state in LIVE and record.stage == f"{STEP_PREFIX}{dataset}":
            parts = record.values["parts"]
        elif one.state in LIVE and record.stage == READ_SOURCES:
            read = record.values["sources"]
    if not parts:
        return made_with_others(store, dataset)
    sources = [one.record(Source) for one in fetch(store, read).values()]
    imported = {one.name: one.model_dump(mode="json") for one in sources}
    stale, of_steps = [], []
    for plan in rejecting_plans(store, (dataset, *imported)):
        source = plan.configuration.get("source")
        if isinstance(source, Mapping) and plan.dataset != dataset:
            if source != imported.get(plan.dataset):
                stale.append(plan.id)
            continue
        made_by = list(_parts_of(plan, settings))
        if not made_by:
            continue
        of_steps.append(plan.id)
        if any(parts.get(name) != [version, values] for name, version, values in made_by):
            stale.append(plan.id)
    return Superseded(tuple(stale), tuple(of_steps))


def _parts_of(
    plan: RejectingPlan, settings: Mapping[str, StageSettings]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the parts by which a plan worked, with their versions and values; none if unknown."""
    linked = [settings[id_] for id_ in plan.configuration.get("made_with", ()) if id_ in settings]
    for one in linked:
        yield one.stage, one.version, without_code(one.values)
    if linked or plan.configuration.get("dataset") != plan.dataset:
        return
    names = {one.stage for one in settings.values()}
    if plan.stage in names and "settings" not in plan.configuration:
        values = {
            name: one for name, one in plan.configuration.items() if name not in ("dataset", "kind")
        }
        yield plan.stage, plan.version, values
