"""Which images leave where people found pairs of them to be the same."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence


def leaving_images(
    order: Sequence[str], same: Iterable[tuple[str, str]], protected: Collection[str] = ()
) -> dict[str, str]:
    """For each image that leaves the one that stays for it.

    Going through `order`, each stays unless it is the same as one that stays already. So none
    leaves because of a chain of others, and of all that are the same one stays.

    Args:
        order: the ids of the images, those that stay rather first.
        same: pairs of them, in any order.
        protected: ids of those that stay in any case.
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for one, other in same:
        alike[one].add(other)
        alike[other].add(one)
    places = {image: place for place, image in enumerate(order)}
    stays: set[str] = set()
    leaves: dict[str, str] = {}
    for image in order:
        standing = sorted(alike[image] & stays, key=places.__getitem__)
        if standing and image not in protected:
            leaves[image] = standing[0]
        else:
            stays.add(image)
    return leaves
