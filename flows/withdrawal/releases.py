"""Withdrawn entities in releases: their rows, and the patches that replace them."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from loupe.db.lineage import Lineage
from loupe.db.release_rows import snapshot
from loupe.db.releases import StoredRelease, StoreVersion, find_release, list_releases
from loupe.db.store import Store, is_there
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.db.withdrawals import notices_of, releases_holding
from loupe.models.profiles.settings import Settings
from loupe.release.contents import Contents
from loupe.release.format.manifest import MANIFEST, manifest_in, release_folder
from loupe.release.format.row_files import ListedRelease
from loupe.release.format.rows import image_path, number_in, text_entity_ids
from loupe.release.format.scratch import Scratch
from loupe.release.withdrawn.files import (
    WITHDRAWN,
    affected_rows,
    followed,
    merged,
    superseding,
    withdrawn_sentence,
)
from loupe.release.withdrawn.notices import known_of, notices_of_home
from loupe.schemas.base import Count, HexSha256, Record, Version
from loupe.schemas.encoding import ReleasedImages
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.provenance import WITHHELD_WHOLE
from loupe.schemas.release import Manifest
from loupe.schemas.taxonomy import TIERS
from loupe.schemas.withdrawal import Ground, WithdrawalNotice, WithdrawnRow, version_numbers


def without_withdrawn(
    traced: Lineage, captions: dict[str, str], rows: Iterable[WithdrawnRow]
) -> tuple[Lineage, dict[str, str]]:
    """Return a lineage and the captions of its root without texts of withdrawn entities.

    If any entity was withdrawn, the payloads of all others may describe it, so only ids, kinds and
    links are kept.
    """
    given = list(rows)
    images = {row.entity_id for row in given if row.is_whole}
    texts = {text for row in given for text in row.texts}
    left = {id_: text for id_, text in captions.items() if id_ not in texts}
    if not images.isdisjoint(traced.entities):
        left = {}
    elif texts.isdisjoint(traced.entities):
        return traced, left
    withheld = {
        id_: node._replace(entity=node.entity._replace(payload="{}", withheld=(WITHHELD_WHOLE,)))
        for id_, node in traced.entities.items()
    }
    return traced._replace(entities=withheld), left


class ReleaseWithdrawal(Record):
    """Summary of what is withdrawn from a release.

    Attributes:
        release: its id.
        affected: the rows that must no longer be used, or lost texts.
        rows: their number.
        grounds: the grounds of the withdrawals.
        superseded_by: the version to use instead; None if there is none.
        sentence: the summary in one sentence, with the first rows.
    """

    release: HexSha256
    affected: tuple[WithdrawnRow, ...] = Field(exclude=True)
    rows: Count
    grounds: tuple[Ground, ...]
    superseded_by: Version | None
    sentence: str


def known_notices(settings: Settings, store: Store | None = None) -> tuple[WithdrawalNotice, ...]:
    """Return the notices in the store, if there is one, and below the home.

    Those of the store take precedence. `store` is the open store of the settings, if it is open.

    Raises:
        ConfigurationError: the store does not answer.
        IntegrityError: a file of notices cannot be read.
    """
    if store is None and is_there(settings.database_url):
        with closing(Store.open(settings.database_url, settings.home)) as opened:
            return known_notices(settings, opened)
    stored = () if store is None else notices_of(store)
    return followed(merged(notices_of_home(settings.home), stored))


def withdrawal_of(
    manifest: Manifest, folder: Path | None, known: Iterable[WithdrawalNotice]
) -> ReleaseWithdrawal | None:
    """Return what is withdrawn from a release, by its folder and known notices; None if nothing.

    Raises:
        IntegrityError: the mark cannot be read.
    """
    notices = known_of(manifest.id, folder, known)
    if not notices:
        return None
    rows = affected_rows(notices)
    return ReleaseWithdrawal(
        release=manifest.id,
        affected=rows,
        rows=len(rows),
        grounds=tuple(dict.fromkeys(one.ground for one in notices)),
        superseded_by=superseding(notices),
        sentence=withdrawn_sentence(notices, manifest.statistics.images),
    )


def withdrawal_in(folder: Path, known: Sequence[WithdrawalNotice]) -> ReleaseWithdrawal | None:
    """Return what is withdrawn from the release in `folder`; None if its manifest is unreadable.

    Raises:
        IntegrityError: the mark cannot be read.
    """
    if not known and not os.path.lexists(folder / WITHDRAWN):
        return None  # reading the manifest of a large release takes a second
    manifest = manifest_in(folder)
    return None if manifest is None else withdrawal_of(manifest, folder, known)


class Person(NamedTuple):
    """A person by the number in the release, and by the name in the source."""

    id: int
    source: str
    name: str


class RowEntities(NamedTuple):
    """The entities of a row of a release; `captions` are those released, `texts` all texts.

    `anchor` is the file of the anchor of a contrastive image.
    """

    number: int
    file_path: str
    image_id: str
    captions: tuple[str, ...]
    texts: tuple[str, ...]
    person: Person
    anchor: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "RowEntities":
        """The entities of a row with these columns."""
        path, person = row["file_path"], Person(row["id"], row["source"], row["identity"])
        captions = tuple(row["caption_entity_ids"] or ())
        image, number = row["image_entity_id"], number_in(path)
        if number is None:
            raise IntegrityError(f"{path!r} is not the path of an image of a release")
        contrast = row.get("contrast")
        anchor = contrast["anchor"] if contrast else None
        return cls(number, path, image, captions, text_entity_ids(row), person, anchor)


def rows_of(store: Store, release: StoredRelease) -> list[RowEntities]:
    """Return the rows of a release, from its folder if it is complete, else from the store.

    Raises:
        IntegrityError: neither the folder nor the store can be read.
    """
    manifest = release.manifest
    if (release.folder / MANIFEST).is_file():
        with suppress(IntegrityError, UsageError):  # damaged: the store has the rows
            listed = ListedRelease(release.folder)
            if listed.manifest.id == manifest.id:
                return list(listed.rows(RowEntities.of))
    past = StoreVersion(release.mark, then_withdrawn=True)
    with closing(Scratch()) as scratch, snapshot(store, past) as connection:
        images: ReleasedImages = manifest.encoding or "stored"
        contents = Contents(connection, manifest.dataset, scratch, manifest.tier, images)
        contents.arrange()
        return [RowEntities.of(found.row.columns(contents.form)) for found in contents.rows()]


# Targets as holders of a release name them: a row by its file, a person by number.


def is_file_of_row(name: str) -> bool:
    """Tell whether `name` is the file name of a row of releases: `images/12.jpg` or `12.jpg`."""
    return number_in(image_path(name)) is not None


def image_in_release(store: Store, release: str, name: str) -> WithdrawalTarget:
    """Return the image of a row, named by its file, such as `images/12.jpg`, or by its number.

    `release` is a folder or a name as in `loupe.db.releases.find_release`.

    Raises:
        UsageError: there is no such release or row.
    """
    stored = _find_release(store, release)
    rows = rows_of(store, stored)
    found = [
        row.image_id for row in rows if name == str(row.number) or image_path(name) == row.file_path
    ]
    if len(found) != 1:
        raise UsageError(
            f"{stored.name} has no row {name!r}; expected the file of an image, such as "
            f"'{rows[0].file_path}', or a number from 1 to {len(rows):,}"
        )
    return WithdrawalTarget(sort="entity", name=found[0])


def person_in_release(store: Store, release: str, number: str) -> WithdrawalTarget:
    """Return the person published under `number` (`id`) in a release, by the name in the source.

    Raises:
        UsageError: there is no such release or person, or its ids number images.
    """
    stored = _find_release(store, release)
    if stored.manifest.statistics.contrasts is not None:
        raise UsageError(
            f"in {stored.name} 'id' numbers images, not people: name an image, such as "
            f"images/1.jpg, with --release"
        )
    people = {row.person for row in rows_of(store, stored) if str(row.person.id) == number}
    if len(people) != 1:
        raise UsageError(
            f"{stored.name} has no person with the id {number!r}; ids are numbers from 1"
        )
    (person,) = people
    return WithdrawalTarget(
        sort="identity", name=person.name, dataset=stored.manifest.dataset, source=person.source
    )


def refuse_two_meanings(store: Store, dataset: str, name: str) -> None:
    """Raise if `name` is also the number under which another person is published.

    Sources often name persons by number; releases number them again from 1.

    Raises:
        UsageError: another person is.
    """
    newest = {one.manifest.tier: one for one in list_releases(store, dataset)}
    for stored in newest.values():
        if stored.manifest.statistics.contrasts is not None:
            continue
        for person in sorted({row.person for row in rows_of(store, stored)}):
            if str(person.id) == name and person.name != name:
                raise UsageError(
                    f"{name!r} can mean two people: the one with that name in a source, and the "
                    f"one published under that id in {stored.name} (called {person.name!r} by "
                    f"{person.source}): name one with --source SOURCE, or with --release "
                    f"{dataset}@{stored.manifest.version} instead of --dataset"
                )


def _find_release(store: Store, name: str) -> StoredRelease:
    """Return a release in the store; if `name` is a folder, with that folder."""
    if (folder := release_folder(name)) is None:
        return find_release(store, name)
    manifest = manifest_in(folder)
    if manifest is None:
        raise UsageError(f"there is no release in {folder}: its {MANIFEST} cannot be read")
    for one in list_releases(store, manifest.dataset):
        if one.manifest.id == manifest.id:
            return one._replace(folder=folder)
    raise UsageError(
        f"{manifest.name} in {folder} was not built here; name a release "
        f"that `loupe release list` shows"
    )


# Withdrawn rows of releases, and the patches that replace the newest releases.


class AffectedRelease(NamedTuple):
    """A release that contains withdrawn entities.

    Attributes:
        release: the stored release.
        rows: its rows that must no longer be used.
        superseded_by: the version to use instead; None if nothing is left.
        undescribed: numbers of the rows whose image is not withdrawn, but that are in no later
            release because they, or their anchor, have no caption left.
        people: the ids in the release of people whose images are withdrawn; empty if ids number
            images.
    """

    release: StoredRelease
    rows: tuple[WithdrawnRow, ...]
    superseded_by: Version | None
    undescribed: tuple[int, ...] = ()
    people: tuple[int, ...] = ()

    @property
    def rows_gone(self) -> int:
        """Number of its rows that later releases do not contain."""
        return sum(row.is_whole for row in self.rows) + len(self.undescribed)

    @property
    def rows_shortened(self) -> int:
        """Number of rows that lose some of their texts, but stay."""
        gone = set(self.undescribed)
        return sum(not row.is_whole and row.number not in gone for row in self.rows)

    def notice(self, withdrawal: str, ground: Ground) -> WithdrawalNotice:
        """Return the notice for holders of the release."""
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
    """A release that replaces the newest one of its dataset and tier.

    `rows` is the number of remaining rows, as far as it is known before the build.
    """

    base: StoredRelease
    version: Version
    rows: int


def is_outside(store: Store, folder: Path) -> bool:
    """Tell whether a folder is outside the home, where nothing is changed unless confirmed."""
    home = store.home
    return home is None or not folder.resolve().is_relative_to(home.resolve())


class Affected(NamedTuple):
    """The releases that a withdrawal affects; patches are in build order."""

    releases: tuple[AffectedRelease, ...]
    patches: tuple[Patch, ...]


_Line = tuple[str, str | None]
"""A dataset and a tier: releases of the same series replace each other."""


def affected_releases(store: Store, withdrawn: Collection[str]) -> Affected:
    """Return releases with any of the entities `withdrawn`, and the patches to build.

    Tiers of a benchmark are patched together if their newest releases have the same state, so that
    their versions still show it.

    Raises:
        IntegrityError: a release can be read neither from its folder nor from the store.
    """
    known, ids = list_releases(store), frozenset(withdrawn)
    with store.read() as connection:
        holding = releases_holding(connection, ids)
    rows = {one.manifest.id: rows_of(store, one) for one in known if one.manifest.id in holding}
    found = {id_: _withdrawn_rows(own, ids) for id_, own in rows.items()}
    hit = {id_ for id_ in holding if found.get(id_)}
    newest = {_line(one): one for one in known}
    patches = list(_patches(store, newest, hit, rows, ids))
    instead = {_line(one.base): one.version if one.rows else None for one in patches}
    releases = [
        AffectedRelease(
            one,
            found[one.manifest.id],
            instead.get(_line(one), newest[_line(one)].manifest.version),
            *_undescribed_and_people(one, rows[one.manifest.id], ids),
        )
        for one in known
        if one.manifest.id in hit
    ]
    return Affected(tuple(releases), tuple(one for one in patches if one.rows))


def _withdrawn_rows(
    rows: Iterable[RowEntities], withdrawn: Collection[str]
) -> tuple[WithdrawnRow, ...]:
    """Return the rows whose image, or some of whose texts, are among the ids `withdrawn`."""
    found = []
    for row in rows:
        texts = tuple(text for text in row.texts if text in withdrawn)
        if row.image_id in withdrawn:
            texts = ()
        elif not texts:
            continue
        found.append(
            WithdrawnRow(
                number=row.number, file_path=row.file_path, entity_id=row.image_id, texts=texts
            )
        )
    return tuple(found)


def _line(one: StoredRelease) -> _Line:
    return one.manifest.dataset, one.manifest.tier


def _patches(
    store: Store,
    newest: Mapping[_Line, StoredRelease],
    hit: Collection[str],
    rows: Mapping[str, list[RowEntities]],
    withdrawn: frozenset[str],
) -> Iterator[Patch]:
    lines = {line for line, one in newest.items() if one.manifest.id in hit}
    states = {(dataset, _numbers(newest[dataset, tier])[1]) for dataset, tier in lines if tier}
    for dataset, tier in sorted(newest, key=_build_order):
        base = newest[dataset, tier]
        major, minor, _ = _numbers(base)
        if (dataset, tier) not in lines and (tier is None or (dataset, minor) not in states):
            continue
        together = [
            _numbers(one)[2]
            for (name, other), one in newest.items()
            if name == dataset and (other is None) == (tier is None) and _numbers(one)[1] == minor
        ]
        id_ = base.manifest.id
        own = rows[id_] if id_ in rows else rows_of(store, base)
        version = f"{major}.{minor}.{max(together) + 1}"
        yield Patch(base, version, len(_rows_left(own, withdrawn)))


def _build_order(line: _Line) -> tuple[str, int]:
    dataset, tier = line
    return dataset, -1 if tier is None else [*TIERS].index(tier)  # type: ignore[arg-type]


def _numbers(one: StoredRelease) -> tuple[int, ...]:
    return version_numbers(one.manifest.version)


def _undescribed_and_people(
    release: StoredRelease, rows: Sequence[RowEntities], withdrawn: frozenset[str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return rows dropped although their image stays, and ids of people with withdrawn images."""
    left = _rows_left(rows, withdrawn)
    undescribed = (
        row.number for row in rows if row.number not in left and row.image_id not in withdrawn
    )
    if release.manifest.statistics.contrasts is not None:  # whose ids number images
        return tuple(undescribed), ()
    people = {row.person.id for row in rows if row.image_id in withdrawn}
    return tuple(undescribed), tuple(sorted(people))


def _rows_left(rows: Sequence[RowEntities], withdrawn: frozenset[str]) -> set[int]:
    """Return the numbers of the remaining rows; none if no row has a caption left.

    A contrastive image is dropped with its anchor.
    """
    left, described = set[int](), False
    stays = {row.file_path: row.image_id not in withdrawn for row in rows}
    says = {row.file_path: bool(set(row.captions) - withdrawn) for row in rows}
    for row in rows:
        is_there = stays[row.file_path]
        if row.anchor is not None:
            is_there = is_there and stays.get(row.anchor, False) and says[row.anchor]
        is_described = is_there and says[row.file_path]
        if is_described or (is_there and not row.captions):
            left.add(row.number)
        described = described or is_described
    return left if described else set()
