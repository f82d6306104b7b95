"""The tasks of a retrieval benchmark as `tasks/*.toml` describe them, and checks of tiers."""

import tomllib
from importlib.resources import files
from typing import Literal

from pydantic import Field

from loupe.schemas.base import Record
from loupe.schemas.errors import UsageError
from loupe.schemas.taxonomy import TIERS, RetrievalTask, Tier, version_in


class TaskForm(Record):
    """A task: what its captions are about, and what is known of its images.

    `known`: "nothing"; "texts" are read in the images; "licences" and names are stated for each
    image by its source; "truth": the images are drawn here, if no source is given.
    """

    task: RetrievalTask
    captions: str = Field(pattern=r"\S")
    known: Literal["nothing", "texts", "licences", "truth"] = "nothing"


def _task_forms() -> dict[RetrievalTask, TaskForm]:
    folder = files("loupe.schemas").joinpath("tasks")
    forms = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        form = TaskForm.model_validate(tomllib.loads(file.read_text("utf-8")))
        forms[form.task] = form
    return forms


TASK_FORMS = _task_forms()
"""The tasks of `tasks/*.toml`."""
RENDERED_TASKS = tuple(task for task, form in TASK_FORMS.items() if form.known == "truth")
"""The tasks whose images can be drawn, so that their answers are known."""


def tier_called(name: str | None) -> Tier | None:
    """The tier with this name; None for None.

    Raises:
        UsageError: if there is no such tier.
    """
    if name is None:
        return None
    for tier in TIERS:
        if tier == name:
            return tier
    raise UsageError(f"a tier must be one of {', '.join(TIERS)}; got {name!r}")


def check_version(tier: Tier, version: str) -> None:
    """Raise unless a version belongs to its tier.

    Raises:
        UsageError: if its first number is that of another tier.
    """
    if version != version_in(tier, version):
        raise UsageError(
            f"a version of tier {tier} must begin with {TIERS.index(tier)}, "
            f"such as {version_in(tier, version)}; got {version!r}"
        )
