"""Groups of images by what captions state of people: sex, age, skin tone, clothing."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from loupe.release.card.facts import is_of_persons
from loupe.release.format.row_files import ReadRelease
from loupe.release.format.rows import ReleaseRow
from loupe.schemas.plugins import NOT_STATED, load_plugin, plugins
from loupe.schemas.release import Manifest, StratumStatistics

FEWEST_PEOPLE = 30
"""A stratum of fewer people is marked: its scores say little."""

_MOSTLY = 0.5
"""The share of images with captions that state a person, from which a dataset is about people."""
_HINT = (
    "Captions of most images state people, but there are no scores by stratum, since the release "
    "was built without the check 'person' (docs/people.md)."
)

StrataReader = Callable[[Sequence[str]], dict[str, str]]
"""Returns the strata of an image by dimension, given its captions; a plugin of `loupe.strata`."""


class _StatedRow(NamedTuple):
    """The strata of an image by dimension, and the readers to which its captions state a person."""

    id: int
    strata: dict[str, str]
    told: tuple[str, ...]


def _stated(rows: Iterable[ReleaseRow]) -> Iterator[_StatedRow]:
    readers: dict[str, StrataReader]
    readers = {name: load_plugin("strata", name) for name in plugins("strata")}
    for row in rows:
        texts = [one.text for one in row.captions]
        strata: dict[str, str] = {}
        told = []
        for name, read in readers.items():
            found = read(texts)
            if next(iter(found.values()), NOT_STATED) != NOT_STATED:  # the first dimension: sex
                told.append(name)
            strata |= found
        yield _StatedRow(row.id, strata, tuple(told))


def strata_of_rows(read: ReadRelease) -> dict[str, list[str]]:
    """Return the stratum of each row by dimension; empty if the release is not of people.

    A release of a pipeline that does not say what it shows is of people if most captions are.
    """
    is_about_people = _says_people(read.manifest)
    if is_about_people is False:
        return {}
    stated = list(_stated(read.rows))
    if not (is_about_people or _is_mostly_told(Counter(_told(stated)), len(stated))):
        return {}
    people = [one.id for one in stated]
    return {
        dimension: _with_small_ones_marked([one.strata[dimension] for one in stated], people)
        for dimension in (stated[0].strata if stated else ())
    }


def strata_hint(read: ReadRelease) -> str | None:
    """Return why there are no strata, if most captions state people all the same."""
    if _says_people(read.manifest) is not False:
        return None
    told = Counter(_told(_stated(read.rows)))
    return _HINT if _is_mostly_told(told, len(read.rows)) else None


def count_strata(manifest: Manifest, rows: Iterable[ReleaseRow]) -> tuple[StratumStatistics, ...]:
    """Count the images and identities of each stratum, the largest first; `not stated` is last.

    Rows of an identity follow each other. A dimension that no caption states is left out; all are
    where `strata_of_rows` is empty.
    """
    is_about_people = _says_people(manifest)
    if is_about_people is False:
        return ()
    images: defaultdict[str, Counter[str]] = defaultdict(Counter)
    identities: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], int] = {}
    told: Counter[str] = Counter()
    total = 0
    for one in _stated(rows):
        total += 1
        told.update(one.told)
        for key in one.strata.items():
            images[key[0]][key[1]] += 1
            identities[key] += last.get(key) != one.id
            last[key] = one.id
    if not (is_about_people or _is_mostly_told(told, total)):
        return ()
    return tuple(
        StratumStatistics(
            dimension=dimension,
            stratum=stratum,
            identities=identities[dimension, stratum],
            images=count,
        )
        for dimension, counts in images.items()
        if counts.keys() != {NOT_STATED}
        for stratum, count in sorted(counts.items(), key=_largest_first)
    )


def _largest_first(counted: tuple[str, int]) -> tuple[bool, int, str]:
    stratum, images = counted
    return stratum == NOT_STATED, -images, stratum


def _says_people(manifest: Manifest) -> bool | None:
    """Return whether a release is of people; None if it does not say."""
    if manifest.form is not None and manifest.of_persons is None:
        return None
    return is_of_persons(manifest)


def _told(stated: Iterable[_StatedRow]) -> Iterator[str]:
    for one in stated:
        yield from one.told


def _is_mostly_told(told: Counter[str], total: int) -> bool:
    """Whether a reader finds a person in captions of half of the images or more."""
    return max(told.values(), default=0) >= _MOSTLY * max(1, total)


def _with_small_ones_marked(labels: Sequence[str], people: Sequence[int]) -> list[str]:
    of_label: defaultdict[str, set[int]] = defaultdict(set)
    for label, person in zip(labels, people, strict=True):
        of_label[label].add(person)
    few = {label for label, ids in of_label.items() if len(ids) < FEWEST_PEOPLE}
    return [f"{label} (few)" if label in few else label for label in labels]
