"""Which captions stay as they were validated, though what they were held against is withdrawn.

How well a caption tells its image apart depends on all images that there were, so that of fewer it
comes out otherwise. What people have decided on, and what was released, does not change by that.
"""

from collections.abc import Mapping

from db.entities import StoredEntity, find, find_children, parents_of
from db.store import Store
from schemas.recos import DiscriminabilityReport
from schemas.tracked_video import StageSettings
from stages.caption_validation.history import STAGE

VALIDATED_WITH = "validated_with"
"""The role in which the settings of a validation stand to what came of it."""
MEASURES = "measures"
"""The role in which a caption stands to the report of its discriminability."""


def standing_images(
    store: Store, dataset: str, image_of: Mapping[str, str], pool: Mapping[str, int]
) -> frozenset[str]:
    """The images whose captions were validated before something of that validation was withdrawn.

    None where nothing was. `image_of` gives the image of each caption as it was first written,
    `pool` has the images that captions are held against now.
    """
    standing: set[str] = set()
    for settings in find(store, dataset, StageSettings.kind):
        told = settings.record(StageSettings)
        if told.stage != STAGE:
            continue
        came = list(find_children(store, settings.id, VALIDATED_WITH))
        is_whole = pool.keys() >= set(told.values["images"])
        if not is_whole or any(one.state == "withdrawn" for one in came):
            standing.update(_measured(store, came, image_of))
    return frozenset(standing)


def _measured(store: Store, came: list[StoredEntity], image_of: Mapping[str, str]) -> set[str]:
    """The images whose captions were measured."""
    reports = [one.id for one in came if one.kind == DiscriminabilityReport.kind]
    measured = parents_of(store, reports, MEASURES)
    return {
        image_of[caption]
        for captions in measured.values()
        for caption in captions
        if caption in image_of
    }
