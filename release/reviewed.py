"""How much of a release people decided on, for each kind of thing in it."""

from typing import NamedTuple

from schemas.release import Manifest


class ReviewShare(NamedTuple):
    """How many of a kind are in the release, and on how many of them a person decided."""

    kind: str
    released: int
    reviewed: int


def review_shares(manifest: Manifest) -> list[ReviewShare]:
    """The shares, kind by kind; a kind of which there is nothing is left out.

    What sources gave is not decided on here, and not counted.
    """
    statistics = manifest.statistics
    made = statistics.descriptions
    tracklets = statistics.tracklets
    shares = [
        ReviewShare(
            "tracklets",
            tracklets.released if tracklets else 0,
            tracklets.reviewed if tracklets else 0,
        ),
        ReviewShare(
            "descriptions",
            made.written + made.edited + made.drafted if made else 0,
            made.written + made.edited + made.reviewed if made else 0,
        ),
        ReviewShare("rewrites", statistics.rewrites.released, statistics.rewrites.reviewed),
    ]
    return [one for one in shares if one.released]


def is_of_persons(manifest: Manifest) -> bool:
    """Whether the images show people, not scenes."""
    return not (manifest.statistics.tasks or manifest.statistics.contrasts)
