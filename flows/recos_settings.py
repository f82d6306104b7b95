"""What a benchmark was begun with: from its first validation on, it is not changed any more.

Whether a caption passes hangs on all images of v0 and on every setting. With others all of it would
be another benchmark, with captions of both in one release.
"""

from typing import Any

from db.entities import StoredEntity, find, parents_of
from flows.captioning import WRITTEN_WITH
from flows.context import RunContext
from flows.retiring import keep_current
from flows.sign_pairs import sign_prompt
from flows.single import store_entity
from schemas.build import RecosBuild
from schemas.caption_request import CAPTION_PURPOSE
from schemas.errors import ConfigurationError
from schemas.profile import CaptioningSettings
from schemas.records import Caption
from schemas.tracked_video import StageSettings

_STAGE = "build_recos"
_VERSION = "1"


def refuse_other_settings(
    context: RunContext, build: RecosBuild, settings: CaptioningSettings
) -> None:
    """Refuses to go on with other settings than a benchmark was validated with.

    Raises:
        ConfigurationError: the dataset was, with others; the sentence names them.
    """
    now = _values(build, settings)
    for one in find(context.store, build.dataset, StageSettings.kind):
        record = one.record(StageSettings)
        if record.stage == _STAGE and record.values != now:
            other = ", ".join(key for key in now if record.values.get(key) != now[key])
            raise ConfigurationError(
                f"dataset {build.dataset!r} was validated with other settings ({other}); build "
                f"under another dataset name (answers of models are not paid again), or with the "
                f"earlier settings"
            )


def is_validated(context: RunContext, dataset: str) -> bool:
    """Whether captions of the benchmark were validated: then its images are no longer changed."""
    settings = find(context.store, dataset, StageSettings.kind)
    return any(one.record(StageSettings).stage == _STAGE for one in settings)


def keep_settings(context: RunContext, build: RecosBuild, settings: CaptioningSettings) -> None:
    """Says what the benchmark is validated with, from now on."""
    record = StageSettings(stage=_STAGE, version=_VERSION, values=_values(build, settings))
    store_entity(context, record, build.dataset)


def retire_other_captions(context: RunContext, dataset: str, settings_id: str) -> None:
    """Takes back captions of v0 that were written with other settings, before any was validated."""
    captions = list(find(context.store, dataset, Caption.kind))
    written = parents_of(context.store, [one.id for one in captions], WRITTEN_WITH)
    of_stage = {
        one.id
        for one in find(context.store, dataset, StageSettings.kind)
        if one.record(StageSettings).stage == CAPTION_PURPOSE
    }

    def is_current(caption: StoredEntity) -> bool | None:
        others = set(written.get(caption.id, ())) & of_stage
        return settings_id in others if others else None

    keep_current(context, dataset, Caption.kind, is_current)


def _values(build: RecosBuild, settings: CaptioningSettings) -> dict[str, Any]:
    model, embedder = settings.model, settings.embedder
    tasks = [task.model_dump(mode="json", exclude={"names"}) for task in build.tasks]
    values = {
        "model": {**model.ref.model_dump(), "parameters": model.parameters},
        "prompts": [settings.prompt, settings.revision_prompt, settings.confusion_prompt],
        "embedder": {**embedder.ref.model_dump(), "parameters": embedder.parameters},
        "discriminability": settings.discriminability.model_dump(mode="json"),
        "confusion": settings.confusion.model_dump(mode="json"),
        "near_duplicates": settings.near_duplicates.model_dump(mode="json"),
        "seed": build.seed,
        "tasks": tasks,
    }
    if any(task.further_pairs for task in build.tasks):
        values["sign_prompt"] = sign_prompt().digest
    return values
