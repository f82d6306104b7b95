"""Which releases a withdrawal reaches, which rows of them, and which patches take their place."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from db.releases import StoredRelease, list_releases
from db.store import Store
from db.withdrawal_notices import releases_holding
from flows.withdrawal_rows import RowEntities, rows_of
from release.tiers import TIERS
from schemas.release import Manifest, Version
from schemas.versions import version_numbers
from schemas.withdrawal import Ground, WithdrawalNotice, WithdrawnRow

_ANCHOR = re.compile(r"images/([0-9]+)_")


class AffectedRelease(NamedTuple):
    """A release that holds what goes.

    Attributes:
        release: as it is stored.
        rows: what of it must not be used any more; empty where its rows cannot be told.
        is_known: whether they can.
        superseded_by: the version to use instead; None where nothing is left.
        undescribed: numbers of the rows whose image is not taken back, and that are in no later
            release all the same: no caption is left of them, or none of their anchor.
        people: what the release calls those whose images go (`id`); none where it numbers images.
    """

    release: StoredRelease
    rows: tuple[WithdrawnRow, ...]
    is_known: bool
    superseded_by: Version | None
    undescribed: tuple[int, ...] = ()
    people: tuple[int, ...] = ()

    @property
    def rows_gone(self) -> int:
        """How many of its rows are in no later release."""
        return sum(row.is_whole for row in self.rows) + len(self.undescribed)

    @property
    def rows_shortened(self) -> int:
        """How many lose some of their texts, and stay."""
        gone = set(self.undescribed)
        return sum(not row.is_whole and row.number not in gone for row in self.rows)

    def is_told(self, notices: Iterable[WithdrawalNotice]) -> bool:
        """Whether its holders were told of all its rows by these notices."""
        own = [one for one in notices if one.release == self.release.manifest.id]
        gone = {row.entity_id for one in own for row in one.rows if not row.texts}
        texts = {text for one in own for row in one.rows for text in row.texts}
        return bool(own) and all(
            row.entity_id in gone or (row.texts and texts.issuperset(row.texts))
            for row in self.rows
        )

    def notice(self, withdrawal: str, ground: Ground) -> WithdrawalNotice:
        """What its holders are told."""
        manifest = self.release.manifest
        return WithdrawalNotice(
            withdrawal=withdrawal,
            ground=ground,
            release=manifest.id,
            dataset=manifest.dataset,
            version=manifest.version,
            rows=self.rows,
            superseded_by=self.superseded_by,
        )


class Patch(NamedTuple):
    """A release that takes the place of the newest one of its dataset and tier.

    `rows` are those that are left, as far as it can be told before it is built.
    """

    base: StoredRelease
    version: Version
    rows: int


class Affected(NamedTuple):
    """What a withdrawal does to releases; patches in the order in which they are built."""

    releases: tuple[AffectedRelease, ...]
    patches: tuple[Patch, ...]


def affected_releases(store: Store, taken: Collection[str]) -> Affected:
    """The releases that hold any of the entities `taken`, and the patches that are to be built.

    Tiers of a benchmark are patched together where their newest releases are of one state, so that
    their versions go on saying so.

    Raises:
        IntegrityError: a release cannot be read, nor told from the store.
    """
    known = list_releases(store)
    with store.read() as connection:
        hit = releases_holding(connection, taken)
    ids = frozenset(taken)
    rows = {one.manifest.id: rows_of(store, one) for one in known if one.manifest.id in hit}
    newest: dict[tuple[str, str | None], StoredRelease] = {
        (one.manifest.dataset, one.manifest.tier): one for one in known
    }
    found = {id_: _withdrawn(many, ids) for id_, many in rows.items() if many is not None}
    of_rows = {id_ for id_ in hit if found.get(id_) or rows[id_] is None}
    patches = list(_patches(store, newest, of_rows, rows, ids))
    instead = {_line(one.base.manifest): one.version if one.rows else None for one in patches}
    releases = [
        AffectedRelease(
            one,
            found.get(one.manifest.id, ()),
            rows[one.manifest.id] is not None,
            instead.get(_line(one.manifest), newest[_line(one.manifest)].manifest.version),
            *_beside(one, rows[one.manifest.id] or [], ids),
        )
        for one in known
        if one.manifest.id in of_rows
    ]
    return Affected(tuple(releases), tuple(one for one in patches if one.rows))


def planned_anew(
    releases: Sequence[StoredRelease], patch: Patch, holding: Collection[str]
) -> Patch | StoredRelease:
    """The patch with the number that it gets now, or the release that is in its place already.

    The number that was planned may be taken: where by a release that holds nothing of what was
    withdrawn, that will do. `releases` are all of the dataset, by version; those in `holding` hold
    some of it.
    """
    taken = next((one for one in releases if one.manifest.version == patch.version), None)
    if taken is None:
        return patch
    if taken.manifest.id not in holding:
        return taken
    newest = [one for one in releases if _line(one.manifest) == _line(patch.base.manifest)][-1]
    if newest.manifest.id not in holding:
        return newest
    major, minor, _ = _numbers(newest)
    beside = [_numbers(one)[2] for one in releases if _numbers(one)[:2] == (major, minor)]
    return Patch(newest, f"{major}.{minor}.{max(beside) + 1}", patch.rows)


def _line(manifest: Manifest) -> tuple[str, str | None]:
    return manifest.dataset, manifest.tier


def _patches(
    store: Store,
    newest: dict[tuple[str, str | None], StoredRelease],
    hit: Collection[str],
    rows: dict[str, list[RowEntities] | None],
    taken: frozenset[str],
) -> Iterator[Patch]:
    lines = [line for line, one in newest.items() if one.manifest.id in hit]
    states = {(dataset, _numbers(newest[dataset, tier])[1]) for dataset, tier in lines if tier}
    for dataset, tier in sorted(newest, key=_place):
        base = newest[dataset, tier]
        minor = _numbers(base)[1]
        if (dataset, tier) not in lines and (tier is None or (dataset, minor) not in states):
            continue
        together = [
            _numbers(one)[2]
            for (name, other), one in newest.items()
            if name == dataset and (other is None) == (tier is None) and _numbers(one)[1] == minor
        ]
        version = f"{_numbers(base)[0]}.{minor}.{max(together) + 1}"
        own = rows.get(base.manifest.id)
        if base.manifest.id not in rows:
            own = rows_of(store, base)
        left = base.manifest.statistics.images if own is None else len(_left(own, taken))
        yield Patch(base, version, left)


def _place(line: tuple[str, str | None]) -> tuple[str, int]:
    dataset, tier = line
    return dataset, -1 if tier is None else [*TIERS].index(tier)  # type: ignore[arg-type]


def _numbers(one: StoredRelease) -> tuple[int, ...]:
    return version_numbers(one.manifest.version)


def _beside(
    release: StoredRelease, rows: Sequence[RowEntities], taken: frozenset[str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows that go although their image does not, and the numbers of people whose images go."""
    left = _left(rows, taken)
    undescribed = (
        row.number for row in rows if row.number not in left and row.image_id not in taken
    )
    if release.manifest.statistics.contrasts is not None:  # whose ids are numbers of images
        return tuple(undescribed), ()
    people = {row.person.id for row in rows if row.image_id in taken}
    return tuple(undescribed), tuple(sorted(people))


def _left(rows: Iterable[RowEntities], taken: frozenset[str]) -> set[int]:
    """The numbers of the rows that are left; none where none of them has a caption.

    A contrastive image, whose file is called after its anchor's number, goes where that does.
    """
    left, described = set[int](), False
    anchors: set[int] = set()
    for row in rows:
        anchor = _ANCHOR.match(row.file_path)
        is_there = row.image_id not in taken and (anchor is None or int(anchor[1]) in anchors)
        is_described = is_there and bool(set(row.captions) - taken)
        if is_described and anchor is None:
            anchors.add(row.number)
        if is_described or (is_there and not row.captions):
            left.add(row.number)
        described = described or is_described
    return left if described else set()


def _withdrawn(rows: Iterable[RowEntities], taken: frozenset[str]) -> tuple[WithdrawnRow, ...]:
    return tuple(
        WithdrawnRow(
            number=row.number,
            file_path=row.file_path,
            entity_id=row.image_id,
            texts=()
            if row.image_id in taken
            else tuple(text for text in row.texts if text in taken),
        )
        for row in rows
        if row.image_id in taken or not taken.isdisjoint(row.texts)
    )
