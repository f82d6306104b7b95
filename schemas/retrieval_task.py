"""The tasks of a retrieval benchmark (ReCoS, section 3) and its tiers.

The tiers v0, v1 and v2 contain each other (ReCoS, section 3.5). The first number of a version is
that of its tier: 0.3.1, 1.3.1 and 2.3.1 are v0, v1 and v2 of one state.
"""

import re
import tomllib
from collections.abc import Iterable
from enum import StrEnum
from importlib.resources import files
from typing import Literal, TypeVar, get_args

from pydantic import Field

from schemas.base import Record
from schemas.errors import UsageError

Tier = Literal["v0", "v1", "v2"]
"""The version of a benchmark in which an image first stands: v0 within v1 within v2."""


class RetrievalTask(StrEnum):
    """The twelve tasks of the paper: seven of coarse recognition, two of fine, three of thinking.

    Any other name is a task, too, equal to itself alone. Neither case nor space, hyphen or
    underscore matters in the names of `tasks/`.
    """

    COLOR = "color"
    COUNT = "count"
    LOCATION = "location"
    FIGURE = "figure"
    OBJECT = "object"
    ACTION = "action"
    SCENE = "scene"
    OCR = "OCR"
    CELEBRITY = "celebrity"
    CALCULATION = "numerical calculation"
    CODE = "code reasoning"
    TRANSLATION = "text translation"

    @classmethod
    def _missing_(cls, value: object) -> "RetrievalTask | None":
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            return None
        if known := _BY_SPELLING.get(_plain(value)):
            return known
        if value not in _OTHERS:
            _OTHERS[value] = str.__new__(cls, value)
            _OTHERS[value]._name_ = _OTHERS[value]._value_ = value
        return _OTHERS[value]


def _plain(spelling: str) -> str:
    return "".join(spelling.casefold().replace("-", " ").replace("_", " ").split())


_NAME = re.compile(r"\w(?:[\w -]{0,58}\w)?")
_BY_SPELLING = {_plain(task.value): task for task in RetrievalTask}
_OTHERS: dict[str, RetrievalTask] = {}


TaskT = TypeVar("TaskT", bound=RetrievalTask | None)


def in_order(tasks: Iterable[TaskT]) -> list[TaskT]:
    """Distinct tasks: the paper's in its order, then others by name, then None."""
    known = {str(task): place for place, task in enumerate(RetrievalTask)}
    named = {task: str(task or "") for task in tasks}
    return sorted(
        named, key=lambda one: (one is None, known.get(named[one], len(known)), named[one])
    )


class TaskForm(Record):
    """A task: what its captions are about, and what is known of its images.

    `known`: "nothing"; "texts" are read in the images; "licences" and names are stated for each
    image by its source; "truth": the images are drawn here, if no source is given.
    """

    task: RetrievalTask
    captions: str = Field(pattern=r"\S")
    known: Literal["nothing", "texts", "licences", "truth"] = "nothing"


_FORMS = files("schemas").joinpath("tasks")
TASK_FORMS = {
    form.task: form
    for file in sorted(_FORMS.iterdir(), key=lambda file: file.name)
    for form in [TaskForm.model_validate(tomllib.loads(file.read_text("utf-8")))]
}
"""The tasks of `tasks/*.toml`."""
_BY_SPELLING |= {_plain(task.value): task for task in TASK_FORMS}
RENDERED_TASKS = tuple(task for task, form in TASK_FORMS.items() if form.known == "truth")
"""The tasks whose images can be drawn, so that their answers are known."""


TIERS: tuple[Tier, ...] = get_args(Tier)
CANDIDATES: Tier = "v2"
"""The tier whose images are candidates only and have no captions."""


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


def tiers_within(tier: Tier) -> tuple[Tier, ...]:
    """The tiers whose images a release of `tier` contains, `tier` last."""
    return TIERS[: TIERS.index(tier) + 1]


def version_in(tier: Tier, version: str) -> str:
    """The name of `version` in another tier: 1.3.1 becomes 0.3.1 in v0."""
    return ".".join([str(TIERS.index(tier)), *version.split(".")[1:]])


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
