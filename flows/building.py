"""Builds what a file says, or the demonstration where the user gives none."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from annotate.projects import Desks
from flows.context import RunContext
from flows.desk import open_desks
from flows.report import BuildReport
from flows.withdrawal import carry_out_again
from profiles.loader import load_profile
from schemas.profile import Profile

BuildT = TypeVar("BuildT")
_BuildT = TypeVar("_BuildT", contravariant=True)


class DatasetBuilder(Protocol[_BuildT]):
    """Does what can be done now of a build; see the `build_dataset` of each flow."""

    def __call__(
        self,
        context: RunContext,
        build: _BuildT,
        profile: Profile,
        open_desks: Callable[[], Desks],
        *,
        wait: bool,
    ) -> BuildReport:
        """What the run came to."""
        ...


class Recipe(NamedTuple, Generic[BuildT]):
    """How a kind of dataset is built.

    Attributes:
        load: reads a build file.
        demonstrate: writes the demonstration's sources into a folder, and gives their build.
        announcement: what is said where these are built.
        build_dataset: does the work.
    """

    load: Callable[[Path], BuildT]
    demonstrate: Callable[[Path], BuildT]
    announcement: str
    build_dataset: DatasetBuilder[BuildT]


def build_by(
    recipe: Recipe[BuildT],
    context: RunContext,
    config: str | None,
    profile: str | None,
    *,
    wait: bool,
) -> BuildReport:
    """Builds what `config` says (None: the demonstration) by `profile` (None: the setting).

    What it has made of things that were withdrawn meanwhile is taken back at its end.

    Raises:
        LoupeError: see the `build_dataset` of the flow.
    """
    settings = context.settings
    chosen = load_profile(profile or settings.profile)
    if config is None:
        context.progress.say(recipe.announcement)
    build = recipe.load(Path(config)) if config else recipe.demonstrate(settings.home)
    try:
        return recipe.build_dataset(
            context, build, chosen, lambda: open_desks(settings, context.store), wait=wait
        )
    finally:
        carry_out_again(context)
