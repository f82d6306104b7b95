"""Train or test: identities that share a video or a near-duplicate image go together.

What must not be torn apart forms components: identities, the videos that they are seen in, and
images of the same content (a video that was encoded anew shows by those). A component is in one
split as a whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.base import digest_of
from schemas.leaks import SplitSettings
from schemas.nearness import ComparedImage, near_duplicates
from schemas.records import Rejection, Split

STAGE = "assign_splits"
VERSION = "1"


class AssignedSplits(NamedTuple):
    """Every identity has a split or a rejection."""

    splits: dict[str, Split]
    rejections: dict[str, Rejection]


def assign_splits(
    images: Sequence[ComparedImage],
    settings: SplitSettings,
    taken: Mapping[str, Split],
) -> AssignedSplits:
    """The split of every identity in `images`.

    What is in a split already stays there, and takes along what belongs to it. The other components
    come in an order that the seed determines; each goes to test where that brings the share of test
    identities nearer to what is wanted, else to train. New identities that belong to train and to
    test are rejected (`would_leak`). Where a new image ties two identities that were there before,
    both stay: the certificate of the release names the leak.

    Args:
        images: all images of the dataset, old and new.
        settings: the share that is wanted, the seed, and what counts as the same content.
        taken: the splits that were given earlier, by identity and by the digest of the video.
    """
    splits: dict[str, Split] = {}
    rejections: dict[str, Rejection] = {}
    free: list[list[str]] = []
    for component in _components(images, settings):
        identities = component.identities
        given = {key: taken[key] for key in (*identities, *component.videos) if key in taken}
        splits.update((name, taken[name]) for name in identities if name in taken)
        if len(set(given.values())) > 1:
            new = [name for name in identities if name not in taken]
            rejections.update((name, _would_leak(name, given)) for name in new)
        elif given:
            splits.update(dict.fromkeys(identities, next(iter(given.values()))))
        else:
            free.append(identities)
    splits.update(_drawn(free, settings, splits))
    return AssignedSplits(dict(sorted(splits.items())), dict(sorted(rejections.items())))


class _Component(NamedTuple):
    identities: list[str]
    videos: list[str]


def _components(images: Sequence[ComparedImage], settings: SplitSettings) -> list[_Component]:
    """What must not be torn apart, each sorted."""
    from scipy.cluster.hierarchy import DisjointSet

    together = DisjointSet()
    for image in images:
        for node in _nodes(image):
            together.add(node)
            together.merge(("identity", image.identity), node)
    for first, second in near_duplicates(images, settings.limits):
        together.merge(("identity", first.identity), ("identity", second.identity))
    return [_sorted(component) for component in together.subsets()]


def _nodes(image: ComparedImage) -> Iterable[tuple[str, str]]:
    yield "identity", image.identity
    yield "file", image.sha256
    if image.video_sha256 is not None:
        yield "video", image.video_sha256


def _sorted(component: Iterable[tuple[str, str]]) -> _Component:
    nodes: dict[str, list[str]] = defaultdict(list)
    for kind, name in sorted(component):
        nodes[kind].append(name)
    return _Component(nodes["identity"], nodes["video"])


def _drawn(
    free: Iterable[list[str]], settings: SplitSettings, given: Mapping[str, Split]
) -> dict[str, Split]:
    """Splits for components that are in none yet."""
    components = sorted(free, key=lambda names: digest_of(str(settings.seed), *names))
    in_test = sum(split == "test" for split in given.values())
    wanted = settings.test_share * (len(given) + sum(map(len, components)))
    splits: dict[str, Split] = {}
    for names in components:
        to_test = abs(in_test + len(names) - wanted) < abs(in_test - wanted)
        in_test += len(names) if to_test else 0
        splits.update(dict.fromkeys(names, "test" if to_test else "train"))
    return splits


def _would_leak(name: str, given: Mapping[str, Split]) -> Rejection:
    examples = {split: key for key, split in reversed(list(given.items()))}
    touched = " and ".join(f"{examples[split]} ({split})" for split in sorted(examples))
    return Rejection(
        stage=STAGE,
        reason="would_leak",
        detail=f"identity {name} shares videos or content with {touched}; it fits in neither split",
        context={"identity": name, "touches": dict(given)},
    )
