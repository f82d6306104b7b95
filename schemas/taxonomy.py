"""Types of difference (CCD, table 5), tasks of retrieval (ReCoS, section 3) and tiers.

The definitions of types and tasks are data, `taxonomy.toml` and `tasks/*.toml`: prompts, answer
schemas, pages, statistics and metrics use them through the enumerations here.

The tiers v0, v1 and v2 contain each other (ReCoS, section 3.5). The first number of a version is
that of its tier: 0.3.1, 1.3.1 and 2.3.1 are v0, v1 and v2 of one state.
"""

import re
import tomllib
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar, get_args


class PrimaryType(StrEnum):
    """The four aspects of an image's content."""

    ENTITY = "Entity"
    SCENE = "Scene"
    EVENT = "Event/Action"
    STYLE = "Style & Presentation"


class DifferenceType(StrEnum):
    """The nine types of difference; each contrastive image differs from its anchor in one.

    Names used in the authors' code, prompts and tables are accepted as aliases; case, white space
    and punctuation are ignored.
    """

    ENTITY_TYPE = "Entity Type"
    ENTITY_ATTRIBUTE = "Entity Attribute"
    ENTITY_RELATION = "Entity Relation"
    ENTITY_EMOTION = "Entity Emotion"
    SCENE_TYPE = "Scene Type"
    SCENE_ATTRIBUTE = "Scene Attribute"
    EVENT_TYPE = "Event/Action Type"
    EVENT_ATTRIBUTE = "Event/Action Attribute"
    STYLE = "Style & Presentation"

    @classmethod
    def _missing_(cls, value: object) -> "DifferenceType | None":
        return _by_spelling().get(_plain(value)) if isinstance(value, str) else None

    @property
    def primary(self) -> PrimaryType:
        """The aspect of the type."""
        return PrimaryType(_taxonomy()[self]["primary"])

    @property
    def definition(self) -> str:
        """The definition in a few words."""
        return str(_taxonomy()[self]["definition"])

    @property
    def examples(self) -> tuple[str, ...]:
        """Examples of what may differ, in a few words each."""
        return tuple(_taxonomy()[self]["examples"])

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the type."""
        return tuple(_taxonomy()[self].get("aliases", ()))

    @property
    def explanation(self) -> str:
        """The definition with its examples on one line."""
        return f"{self.definition} ({'; '.join(self.examples)})"


def taxonomy_lines() -> str:
    """Return the types with their definitions, one per line, as in prompts."""
    return "\n".join(f"- {kind}: {kind.explanation}" for kind in DifferenceType)


@cache
def _taxonomy() -> dict[str, dict[str, Any]]:
    """Return the rows of the taxonomy's file by their names."""
    text = files("loupe.schemas").joinpath("taxonomy.toml").read_text(encoding="utf-8")
    return {row["name"]: row for row in tomllib.loads(text)["types"]}


@cache
def _by_spelling() -> dict[str, DifferenceType]:
    return {
        _plain(spelling): kind
        for kind in DifferenceType
        for spelling in (kind.value, *kind.aliases)
    }


def _plain(spelling: str) -> str:
    joined = spelling.casefold().replace("&", " and ")
    return "".join(character for character in joined if character.isalnum())


Tier = Literal["v0", "v1", "v2"]
"""The version of a benchmark in which an image first stands: v0 within v1 within v2."""
TIERS: tuple[Tier, ...] = get_args(Tier)
CANDIDATES: Tier = "v2"
"""The tier whose images are candidates only and have no captions."""
_NAME = re.compile(r"\w(?:[\w -]{0,58}\w)?")


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
        return _tasks_by_spelling().get(_plain(value)) or _other_task(value)


@cache
def _other_task(name: str) -> RetrievalTask:
    task = str.__new__(RetrievalTask, name)
    task._name_ = task._value_ = name
    return task


@cache
def _tasks_by_spelling() -> dict[str, RetrievalTask]:
    tasks = {_plain(task.value): task for task in RetrievalTask}
    for file in files("loupe.schemas").joinpath("tasks").iterdir():
        name = tomllib.loads(file.read_text("utf-8"))["task"]
        tasks.setdefault(_plain(name), _other_task(name))
    return tasks


TaskT = TypeVar("TaskT", bound=RetrievalTask | None)


def in_order(tasks: Iterable[TaskT]) -> list[TaskT]:
    """Distinct tasks: the paper's in its order, then others by name, then None."""
    known = {str(task): place for place, task in enumerate(RetrievalTask)}
    named = {task: str(task or "") for task in tasks}
    return sorted(
        named, key=lambda one: (one is None, known.get(named[one], len(known)), named[one])
    )


def tiers_within(tier: Tier) -> tuple[Tier, ...]:
    """The tiers whose images a release of `tier` contains, `tier` last."""
    return TIERS[: TIERS.index(tier) + 1]


def version_in(tier: Tier, version: str) -> str:
    """The name of `version` in another tier: 1.3.1 becomes 0.3.1 in v0."""
    return ".".join([str(TIERS.index(tier)), *version.split(".")[1:]])
