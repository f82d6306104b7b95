"""What the builds have in common, from the build file to the release."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from annotate.projects import Desks
from db.entities import NewEntity, StoredEntity, count_entities, find, new_entity
from db.store import Store
from flows.engine.context import RunContext
from flows.engine.gates import open_desks
from flows.engine.report import BuildReport, StageReport
from flows.ufine3c.sampling import SampleSettings, captions_below, draw_identities
from flows.withdrawal.execution import resume_reopened
from profiles.loader import load_profile
from schemas.build import CcdBuild, SourceSpec
from schemas.profile import Profile
from schemas.records import Caption, Granularity, Image

# Builds what a file says, or the demonstration where the user gives none.

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


class PipelineSpec(NamedTuple, Generic[BuildT]):
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


def run_pipeline(
    recipe: PipelineSpec[BuildT],
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
        resume_reopened(context)


# Takes the anchors of a contrastive benchmark out of their sources, each with its captions.
#
# These captions are coarse: fine ones are made of them, and they are released beside those.

MOST_CAPTIONS = 5
"""How many captions of an anchor are taken: CCD has five; COCO now and then more."""


def take_anchors(
    context: RunContext, build: CcdBuild, spec: SourceSpec, source: NewEntity
) -> StageReport:
    """Copies the drawn images of `spec` into `build.dataset`, as what contrasts are made of.

    Raises:
        ConfigurationError: the source has no usable image, or the dataset holds another draw.
    """
    every = count_entities(context.store, spec.name, Image.kind)
    wanted = spec.identities or build.anchors
    if wanted is not None and every < wanted:
        context.progress.say(f"source {spec.name} has {every:,} images, fewer than {wanted:,}")
    settings = SampleSettings(
        identities=wanted or max(every, 1),
        images_per_identity=spec.images_per_identity,
        seed=build.seed,
    )
    return draw_identities(context, build.dataset, spec, source, settings, _as_anchor)


def anchors_of(store: Store, dataset: str) -> list[StoredEntity]:
    """The anchors of a benchmark, whatever was decided on them, oldest first."""
    return [one for one in find(store, dataset, Image.kind) if is_anchor(one)]


def is_anchor(image: StoredEntity) -> bool:
    """Whether an image of a contrastive benchmark is an anchor."""
    return image.record(Image).contrast is None


def coarse_captions(store: Store, image_ids: Sequence[str]) -> dict[str, list[StoredEntity]]:
    """The captions that each anchor came with, by position."""
    found = captions_below(store, image_ids)
    return {
        image_id: sorted(
            (
                one
                for one in captions
                if one.record(Caption).granularity is Granularity.COARSE
                and one.state in ("proposed", "accepted")
            ),
            key=lambda one: one.record(Caption).position,
        )
        for image_id, captions in found.items()
    }


def _as_anchor(
    dataset: str, image: StoredEntity, captions: Sequence[StoredEntity], sample: NewEntity
) -> tuple[NewEntity, ...]:
    """An image and its first captions; the group of all is the anchor."""
    copy = new_entity(
        image.record(Image),
        dataset,
        parents=[("sampled_from", image.id), ("member_of", sample.id)],
        split=image.split,
    )
    first = sorted(captions, key=lambda one: one.record(Caption).position)[:MOST_CAPTIONS]
    copies = (
        new_entity(
            caption.record(Caption).model_copy(update={"granularity": Granularity.COARSE}),
            dataset,
            parents=[("describes", copy.id), ("sampled_from", caption.id)],
            split=image.split,
            group=copy.id,
        )
        for caption in first
    )
    return (copy._replace(group=copy.id), *copies)
