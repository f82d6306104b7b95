"""The anchors of a contrastive benchmark, drawn from the sources with their coarse captions.

Fine captions are refined from the coarse ones and released with them.
"""

from collections.abc import Sequence

from db.entities import NewEntity, StoredEntity, count_entities, find
from db.store import Store
from flows.engine.context import RunContext
from flows.engine.report import StageReport
from flows.engine.sampling import SampleSettings, captions_below, draw_sample
from schemas.build import CcdBuild, SourceSpec
from schemas.records import Caption, Granularity, Image

MOST_CAPTIONS = 5
"""The most captions taken of an anchor: CCD has five, COCO sometimes has more."""


def take_anchors(
    context: RunContext, build: CcdBuild, spec: SourceSpec, source: NewEntity
) -> StageReport:
    """Copies the drawn images of `spec` into `build.dataset` as anchors.

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
    return draw_sample(context, build.dataset, spec, source, settings, coarse=MOST_CAPTIONS)


def anchors_of(store: Store, dataset: str) -> list[StoredEntity]:
    """Return the anchors of a benchmark, oldest first, whatever was decided on them."""
    return [one for one in find(store, dataset, Image.kind) if is_anchor(one)]


def is_anchor(image: StoredEntity) -> bool:
    """Return whether an image of a contrastive benchmark is an anchor."""
    return image.record(Image).contrast is None


def coarse_captions(store: Store, image_ids: Sequence[str]) -> dict[str, list[StoredEntity]]:
    """Return the coarse captions of each anchor in the order of their positions."""
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
