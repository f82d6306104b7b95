"""Which images a contrastive benchmark shows already, so that no search gives one of them again."""

from collections.abc import Collection, Sequence

from flows.context import RunContext
from flows.task_images import stored_picture
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.proposals import Picture
from schemas.records import Rejection
from stages.near_duplicates.collection import collect
from stages.near_duplicates.fingerprints import fingerprint
from stages.near_duplicates.pairs import pairs_of


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
        self._settings = settings
        self._shown: list[tuple[str, Picture]] = []

    def add(self, owner: str, picture: Picture) -> None:
        """From now on `picture` is used, for `owner`."""
        self._shown.append((owner, picture))

    def are_used(
        self,
        pictures: Sequence[Picture],
        but_for: Collection[str] = (),
    ) -> list[bool]:
        """For each of `pictures` whether it is used already.

        It is where it has the bytes of a used one, or surely its look; what is for an owner in
        `but_for` does not count.
        """
        others = {one.sha256: one for owner, one in self._shown if owner not in but_for}
        used = [one.sha256 in others for one in pictures]
        looks = [self._looks.of(one) for one in pictures]
        known = [
            look
            for one in others.values()
            if isinstance(look := self._looks.of(one), ImageFingerprint)
        ]
        asked = [place for place, look in enumerate(looks) if isinstance(look, ImageFingerprint)]
        every = [look for look in looks if isinstance(look, ImageFingerprint)] + known
        images = {str(place): look for place, look in enumerate(every)}
        collection = collect(images)
        for row in pairs_of(collection, self._settings, collection.firsts[: len(asked)]):
            first, second = sorted((int(row["first"]), int(row["second"])))
            if first < len(asked) <= second and not row["doubtful"]:
                used[asked[first]] = True
        for place, first_alike in zip(asked, collection.firsts, strict=False):  # of equal bytes
            if first_alike < len(asked):
                used[place] = used[place] or used[asked[first_alike]]
        return used
