"""Train or test: identities that share a video or a near-duplicate image go together.

What must not be torn apart forms components: identities, the videos that they are seen in, and
images of the same content (a video that was encoded anew shows by those). A component is in one
split as a whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.base import digest_of
from schemas.leaks import LeakLimits, SplitSettings
from schemas.nearness import ComparedImage, near_duplicates
from schemas.records import Rejection, Split

STAGE = "assign_splits"
VERSION = "1"


ImageKey = tuple[str, str]
"""An image by its identity and its own name."""


class AssignedSplits(NamedTuple):
    """Every identity has a split or a rejection.

    `tied` are the images (identity, name) that cannot stay in train: each with an image of the
    other split (identity, name) that it shares a video or content with.
    """

    splits: dict[str, Split]
    rejections: dict[str, Rejection]
    tied: dict[ImageKey, ImageKey]


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
    both stay, but the images in train that are tied to some in test do not (`tied`): what models
    were tested on must not change.

    Args:
        images: all images of the dataset, old and new.
        settings: the share that is wanted, the seed, and what counts as the same content.
        taken: the splits that were given earlier, by identity and by the digest of the video.
    """
    splits: dict[str, Split] = {}
    rejections: dict[str, Rejection] = {}
    free: list[list[str]] = []
    torn: set[str] = set()
    for component in _components(images, settings):
        identities = component.identities
        given = {key: taken[key] for key in (*identities, *component.videos) if key in taken}
        splits.update((name, taken[name]) for name in identities if name in taken)
        if len(set(given.values())) > 1:
            new = [name for name in identities if name not in taken]
            rejections.update((name, _would_leak(name, given)) for name in new)
            torn.update(name for name in identities if name in taken)
        elif given:
            splits.update(dict.fromkeys(identities, next(iter(given.values()))))
        else:
            free.append(identities)
    splits.update(_drawn(free, settings, splits))
    tied = _tied([one for one in images if one.identity in torn], splits, settings.limits)
    return AssignedSplits(dict(sorted(splits.items())), dict(sorted(rejections.items())), tied)


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


def _tied(
    images: Iterable[ComparedImage], splits: Mapping[str, Split], limits: LeakLimits
) -> dict[ImageKey, ImageKey]:
    """The images in train that are tied to some in test, each with the first such."""
    ordered = sorted(images, key=_key)
    tied: dict[ImageKey, ImageKey] = {}
    pairs = (*_sharing(ordered, splits), *near_duplicates(ordered, limits))
    for first, second in pairs:
        if splits[first.identity] != splits[second.identity]:
            in_train = splits[first.identity] == "train"
            leaves, stays = (first, second) if in_train else (second, first)
            tied.setdefault(_key(leaves), _key(stays))
    return dict(sorted(tied.items()))


def _sharing(
    images: Sequence[ComparedImage], splits: Mapping[str, Split]
) -> Iterable[tuple[ComparedImage, ComparedImage]]:
    """Every image in train whose file or video is in test, too, with an image there."""
    in_test: dict[tuple[str, str], ComparedImage] = {}
    for image in images:
        if splits[image.identity] == "test":
            for node in _nodes(image):
                in_test.setdefault(node, image)
    for image in images:
        if splits[image.identity] == "train":
            yield from ((image, in_test[node]) for node in _nodes(image) if node in in_test)


def _key(image: ComparedImage) -> ImageKey:
    return image.identity, image.name


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


def tied_images(tracklet_id: str, tied: Mapping[str, ImageKey]) -> Rejection:
    """Says which images of a tracklet are left out of train, and what ties each to test."""
    (name, (identity, other)), *more = tied.items()
    others = f"; so are {len(more):,} more of its images" if more else ""
    return Rejection(
        stage=STAGE,
        reason="tied_to_test",
        detail=(
            f"image {name!r} (train) is left out: it shares its video or content with "
            f"{other!r} of {identity} (test){others}"
        ),
        context={"tracklet_id": tracklet_id, "tied": {one: list(to) for one, to in tied.items()}},
    )


def _would_leak(name: str, given: Mapping[str, Split]) -> Rejection:
    examples = {split: key for key, split in reversed(list(given.items()))}
    touched = " and ".join(f"{examples[split]} ({split})" for split in sorted(examples))
    return Rejection(
        stage=STAGE,
        reason="would_leak",
        detail=f"identity {name} shares videos or content with {touched}; it fits in neither split",
        context={"identity": name, "touches": dict(given)},
    )
