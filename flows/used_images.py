"""Which images a contrastive benchmark shows already, so that no search gives one of them again."""

from collections.abc import Collection, Sequence

from flows.context import RunContext
from flows.task_images import stored_picture
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.proposals import Picture
from schemas.records import Rejection
from stages.near_duplicates.fingerprints import fingerprint
from stages.near_duplicates.growing import GrowingCollection


class Looks:
    """What pictures look like, each fingerprinted once by its bytes."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._known: dict[str, ImageFingerprint | Rejection] = {}

    def of(self, picture: Picture) -> ImageFingerprint | Rejection:
        """The fingerprint of a picture, or why it has none."""
        if picture.sha256 not in self._known:
            stored = stored_picture(self._context, picture)
            self._known[picture.sha256] = fingerprint(stored.read(), stored.name)
        return self._known[picture.sha256]


class UsedImages:
    """Anchors and candidates that stand, by whom they are for: an anchor, or a strategy.

    Found images are held against them by bytes and by look.

    Args:
        looks: of the run.
        settings: when two pictures have the same content.
    """

    def __init__(self, looks: Looks, settings: NearDuplicateSettings) -> None:
        self._looks = looks
        self._shown = GrowingCollection(settings)

    def add(self, owner: str, picture: Picture) -> None:
        """From now on `picture` is used, for `owner`."""
        self._shown.add(owner, picture.sha256, self._look(picture))

    def are_used(
        self,
        pictures: Sequence[Picture],
        but_for: Collection[str] = (),
    ) -> list[bool]:
        """For each of `pictures` whether it is used already.

        It is where it has the bytes of a used one, or surely its look; what is for an owner in
        `but_for` does not count.
        """
        return [
            bool(self._shown.owners_alike(one.sha256, self._look(one)).difference(but_for))
            for one in pictures
        ]

    def _look(self, picture: Picture) -> ImageFingerprint | None:
        look = self._looks.of(picture)
        return look if isinstance(look, ImageFingerprint) else None
