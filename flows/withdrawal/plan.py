"""What a withdrawal would do, changing nothing: what is shown before it is done."""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection

from db.entities import AgentRef, datasets_of, parents_of
from db.evaluations import count_showing
from db.release_rows import snapshot
from db.releases import UNMARKED, StoredRelease, StoreVersion, find_release, list_releases
from db.reviews import tasks_to_erase
from db.store import Store
from db.withdrawal_graph import (
    Blob,
    Closure,
    Named,
    WithdrawalTarget,
    blobs_of,
    closure,
    judged_alone,
    meant_by,
    names_of,
    needed_blobs,
    refused_digests,
    stored_images,
)
from db.withdrawals import (
    NewWithdrawal,
    StoredWithdrawal,
    WithdrawalRequest,
    earlier_of,
    extend_withdrawal,
    key_of,
    notices_of,
    record_withdrawal,
    releases_beside,
    releases_holding,
    withdrawn_entities,
)
from flows.engine.context import RunContext
from release.contents import Contents
from release.export.formats import read_export
from release.manifest import MANIFEST, read_manifest
from release.notices import entity_rows, files_to_erase, number_in, texts_of
from release.notices_files import NOTICES, read_mark
from release.parquet_rows import shards_among
from release.reading import read_listed
from release.report.record import REPORT, ReportRecord
from release.scratch import Scratch
from release.tiers import TIERS
from schemas.base import sha256_of
from schemas.decoders import DECODER_FAULTS, decode_limited
from schemas.errors import IntegrityError, UsageError
from schemas.limited import LimitExceededError
from schemas.nearness import perceptual_hash
from schemas.release import Manifest, Version
from schemas.withdrawal import (
    ERASING,
    Ground,
    WithdrawalCount,
    WithdrawalNotice,
    WithdrawnRow,
    version_numbers,
)

# The rows of a release that is stored, by the entities that stand in them.


class Person(NamedTuple):
    """Who is shown: by the number that the release gives, and by the name of the source."""

    id: int
    source: str
    name: str


class RowEntities(NamedTuple):
    """A row of a release by its entities; `captions` are what it is released with."""

    number: int
    file_path: str
    image_id: str
    captions: tuple[str, ...]
    others: tuple[str, ...]
    person: Person

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is said of the image."""
        return (*self.captions, *self.others)


def rows_of(store: Store, release: StoredRelease) -> list[RowEntities] | None:
    """The rows of a release: from its folder where all of it is there, else from the store.

    None where the folder is gone or was erased in part, and it was released before marks were kept.

    Raises:
        IntegrityError: neither the folder nor the store can tell them.
    """
    if (release.folder / MANIFEST).is_file():
        try:
            if (found := _rows_in(release)) is not None:
                return found
        except (IntegrityError, UsageError):  # damaged: the store knows what stood there
            if release.mark == UNMARKED:
                raise
    return None if release.mark == UNMARKED else list(_rows_then(store, release))


def _rows_in(release: StoredRelease) -> list[RowEntities] | None:
    manifest, listed = read_listed(release.folder)
    shards = [release.folder / path for path in shards_among(listed)]
    if manifest.id != release.manifest.id or not all(shard.is_file() for shard in shards):
        return None
    found = []
    for shard in shards:
        for row in entity_rows(shard):
            captions = tuple(row.get("caption_entity_ids") or ())
            others = texts_of(row)[len(captions) :]
            path, person = row["file_path"], Person(row["id"], row["source"], row["identity"])
            found.append(
                RowEntities(number_in(path), path, row["image_entity_id"], captions, others, person)
            )
    return found


def _rows_then(store: Store, release: StoredRelease) -> Iterator[RowEntities]:
    """The rows as they stood in the store when it was built."""
    manifest, past = release.manifest, StoreVersion(release.mark, then_withdrawn=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "rows.db")
        try:
            with snapshot(store, past) as connection:
                contents = Contents(connection, manifest.dataset, scratch, manifest.tier)
                contents.arrange()
                for found in contents.rows():
                    row = found.row
                    captions = tuple(one.entity_id for one in row.captions)
                    others = [one.entity_id for one in row.coarse_captions]
                    others += [one.entity_id for one in row.translations]
                    yield RowEntities(
                        row.number,
                        row.file_path,
                        row.image_entity_id,
                        captions,
                        tuple(others),
                        Person(row.id, row.source, row.identity),
                    )
        finally:
            scratch.close()


# What holders of a release name, found in the store: a row by its file, a person by number.

_FILE = re.compile(r"(?:images/)?((?:[0-9]+_)?[1-9][0-9]*\.[a-z]+)")
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")


def is_file_of_row(name: str) -> bool:
    """Whether images of releases are called like `name`: `images/12.jpg`, `12.jpg`."""
    return _FILE.fullmatch(name) is not None


def image_in_release(store: Store, release: str, name: str) -> WithdrawalTarget:
    """The image in a row that is named by its file, such as `images/12.jpg`, or by its number.

    `release` is a folder, or called as `db.releases.find_release` says.

    Raises:
        UsageError: there is no such release or row.
    """
    stored = _release_called(store, release)
    rows = _rows(store, stored)
    file = _FILE.fullmatch(name)
    found = [
        row.image_id
        for row in rows
        if (file and row.file_path == f"images/{file[1]}")
        or (_NUMBER.fullmatch(name) and row.number == int(name))
    ]
    if len(found) != 1:
        raise UsageError(
            f"{_called(stored)} has no row {name!r}; wanted the file of an image, such as "
            f"'{rows[0].file_path}', or a number from 1 to {len(rows):,}"
        )
    return WithdrawalTarget(sort="entity", name=found[0])


def person_in_release(store: Store, release: str, number: str) -> WithdrawalTarget:
    """The person whom a release calls `number` (`id`), as the source calls them.

    Raises:
        UsageError: there is no such release or person, or it numbers images and no persons.
    """
    stored = _release_called(store, release)
    if stored.manifest.statistics.contrasts is not None:
        raise UsageError(
            f"in {_called(stored)} 'id' counts images and no persons: name an image, such as "
            f"images/1.jpg, with --release"
        )
    people = {row.person for row in _rows(store, stored) if str(row.person.id) == number}
    if len(people) != 1:
        raise UsageError(
            f"{_called(stored)} tells of no person with the id {number!r}; ids are numbers from 1"
        )
    (person,) = people
    return WithdrawalTarget(
        sort="identity", name=person.name, dataset=stored.manifest.dataset, source=person.source
    )


def refuse_two_meanings(store: Store, dataset: str, name: str) -> None:
    """Makes sure that `name` is not also the number under which another person is published.

    Sources name persons, often by numbers; releases count them anew from 1.

    Raises:
        UsageError: it is.
    """
    newest = {one.manifest.tier: one for one in list_releases(store, dataset)}
    for stored in newest.values():
        if stored.manifest.statistics.contrasts is not None:
            continue
        for person in sorted({row.person for row in rows_of(store, stored) or ()}):
            if str(person.id) == name and person.name != name:
                raise UsageError(_two_meanings(stored, person))


def _two_meanings(stored: StoredRelease, person: Person) -> str:
    name = f"{stored.manifest.dataset}@{stored.manifest.version}"
    return (
        f"{str(person.id)!r} can mean two persons: who is called so by a source, and who is "
        f"published under that id in {_called(stored)} (called {person.name!r} by "
        f"{person.source}): say which with --source SOURCE, or with --release {name} in the place "
        f"of --dataset"
    )


def _release_called(store: Store, name: str) -> StoredRelease:
    """A release that the store knows; where a folder is named, that is read where it can be."""
    folder = Path(name)
    if not folder.is_dir():
        return find_release(store, name)
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    try:
        manifest = read_manifest(folder)
    except (ValidationError, ValueError, OSError) as error:
        raise UsageError(f"{folder / MANIFEST} is no manifest of a release") from error
    for one in list_releases(store, manifest.dataset):
        if one.manifest.id == manifest.id:
            return one._replace(folder=folder)
    raise UsageError(
        f"{manifest.dataset} {manifest.version} in {folder} was not built here; find the picture "
        f"by its bytes: --file {folder}/images/…"
    )


def _rows(store: Store, stored: StoredRelease) -> list[RowEntities]:
    rows = rows_of(store, stored)
    if not rows:
        raise UsageError(
            f"the rows of {_called(stored)} cannot be told any more: its folder {stored.folder} is "
            f"gone, or was erased in part"
        )
    return rows


def _called(stored: StoredRelease) -> str:
    return f"{stored.manifest.dataset} {stored.manifest.version}"


# A file that somebody sent: known by its digest, and by its look where the bytes are others.

_LIMIT_BITS = 10
"""Further apart than where images count as the same: a person looks at what is found."""


class Lookalike(NamedTuple):
    """An image that may show the same as a file, though its bytes are others.

    `distance` is how many of the 64 bits of their perceptual hashes differ.
    """

    entity_id: str
    dataset: str
    file_path: str
    distance: int


def target_of_file(path: Path, also: tuple[str, ...] = ()) -> WithdrawalTarget:
    """What is asked for with a file: its digest, and images that somebody found to be the same.

    Raises:
        UsageError: the file cannot be read.
    """
    return WithdrawalTarget(sort="file", name=sha256_of(_read(path)), also=tuple(sorted(also)))


def lookalikes(context: RunContext, path: Path) -> list[Lookalike] | None:
    """The images whose look is like that of a file, and whose bytes are others; nearest first.

    Every picture in the blob store is looked at, which takes a second for some hundreds. None where
    the file is no picture that can be looked at, such as a video: it has no look to compare.

    Raises:
        UsageError: the file cannot be read.
    """
    data = _read(path)
    try:
        wanted = decode_limited(perceptual_hash, data)
    except (*DECODER_FAULTS, LimitExceededError):
        return None
    digest, seen = sha256_of(data), dict[str, int | None]()
    found = []
    for one in stored_images(context.store):
        if digest in one.digests:
            continue
        if one.blob.sha256 not in seen:
            seen[one.blob.sha256] = _distance(context, one.blob, wanted)
        distance = seen[one.blob.sha256]
        if distance is not None and distance <= _LIMIT_BITS:
            found.append(Lookalike(one.entity_id, one.dataset, one.file_path, distance))
    return sorted(found, key=lambda one: (one.distance, one.dataset, one.entity_id))


def _distance(context: RunContext, blob: Blob, wanted: int) -> int | None:
    """In how many bits a stored picture differs; None where it cannot be looked at."""
    try:
        data = context.blobs.read(blob.sha256, blob.media_type)
        found = decode_limited(perceptual_hash, data)
    except (*DECODER_FAULTS, LimitExceededError, IntegrityError):
        return None
    return (found ^ wanted).bit_count()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


# Pages that runs write below the home, with pictures and texts in them: gone with what they show.
#
# A page is called after its dataset, and no page is looked into: whichever of a dataset lie there
# go, and whoever runs the build, `loupe evaluate` or `loupe leaderboard` again, which go on without
# what is withdrawn, gets them anew.

PAGES = ("reports", "leaderboards")
"""The folders below the home that hold pages and nothing else. Other folders hold no pages:
releases and notices are marked, files of the blob store are erased by their digests, `rendered` and
`demonstration` hold what was drawn here and is imported as a source, `trainings` hold models."""


def erase_pages(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Removes all pages of these datasets; gives where those lay below the home that were there.

    `known` are the other datasets that there are: a page of `people-two` is none of `people`.
    """
    removed = pages_of(home, datasets, known)
    for page in removed:
        _remove(home / page)
    return removed


def pages_of(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Where below the home the pages of these datasets lie; see `erase_pages`."""
    wanted = set(datasets)
    names = wanted.union(known)
    return [
        f"{folder}/{path.name}"
        for folder in PAGES
        for path in sorted((home / folder).glob("*"))
        if _dataset_of(path.name, names) in wanted
    ]


def _dataset_of(page: str, names: Collection[str]) -> str | None:
    """The dataset with the longest name that a page may be called after."""
    whole = page.lstrip(".")  # one that was being written when its run was killed
    fitting = (name for name in names if whole.startswith((f"{name}-", f"{name}.")))
    return max(fitting, key=len, default=None)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# What a withdrawal cannot reach: told at its end, with the places that are known.

DRAWN = ("demonstration", "rendered")
"""The folders below the home that hold pictures which were drawn here, to be imported."""

_MADE_HERE = ("downloaded_from", "found_as", "edited_as", "accepted_from", "crop_of")
"""What pictures were made from here that no source has a file of."""


class Unreached(NamedTuple):
    """What must be removed, or told, by people.

    Attributes:
        made: folders beside releases with exports and reports of one that holds any of it, and
            copies of one.
        originals: by source, the files that go as the source calls them; not what was found,
            edited or cut here.
        drawn: those of them that lie below the home.
        notices: the files to be published.
        on_desks: by review server, how many tasks lie there that are still to be deleted.
    """

    made: tuple[Path, ...]
    originals: dict[str, tuple[str, ...]]
    drawn: tuple[Path, ...]
    notices: tuple[Path, ...]
    on_desks: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """As it is printed for programs."""
        return {
            "made_before": [str(path) for path in self.made],
            "originals": {source: list(files) for source, files in self.originals.items()},
            "drawn_here": [str(path) for path in self.drawn],
            "to_publish": [str(path) for path in self.notices],
            "on_review_servers": self.on_desks,
        }


def unreached(store: Store, home: Path, withdrawal: StoredWithdrawal) -> Unreached:
    """What of a withdrawal is left where it cannot be reached from here, as far as it is known."""
    notices = notices_of(store, withdrawal.id)
    withdrawn = withdrawn_entities(store, withdrawal.id)
    with store.read() as connection:
        named = names_of(connection, withdrawn)
    made = {id_ for role in _MADE_HERE for id_ in parents_of(store, withdrawn, role)}
    originals: dict[str, set[str]] = {}
    for one in (one for id_, one in named.items() if id_ not in made):
        if one.file_path is not None and one.source is not None:
            originals.setdefault(one.source, set()).add(one.file_path)
    known = {one.folder.resolve() for one in list_releases(store)}
    beside = {folder.parent for folder in known} | {home.resolve()}
    told = {one.dataset for one in notices}
    return Unreached(
        tuple(_made_of({one.release for one in notices}, beside, known)),
        {source: tuple(sorted(files)) for source, files in sorted(originals.items())},
        tuple(_drawn(home, {file for files in originals.values() for file in files})),
        tuple(home / NOTICES / f"{dataset}.json" for dataset in sorted(told)),
        dict(sorted(Counter(one.server for one in tasks_to_erase(store, withdrawal.id)).items())),
    )


def _made_of(
    releases: AbstractSet[str], folders: Iterable[Path], known: Collection[Path]
) -> Iterator[Path]:
    """The folders in `folders` that were made of one of these releases, but for `known` ones."""
    for folder in sorted(folders):
        for made in sorted(folder.glob("*")):
            if (
                made.is_dir()
                and made.resolve() not in known
                and not releases.isdisjoint(_ids_of(made))
            ):
                yield made


def _ids_of(folder: Path) -> Iterator[str]:
    """The ids of the releases that the folder of an export, a report or a copy was made of."""
    with suppress(OSError, ValueError):
        yield read_export(folder).release
    with suppress(OSError, ValueError):
        report = ReportRecord.model_validate_json((folder / REPORT).read_bytes())
        yield report.release
        if report.previous is not None:
            yield report.previous
    with suppress(OSError, ValueError):
        yield read_manifest(folder).id


def _drawn(home: Path, files: Collection[str]) -> Iterator[Path]:
    """The files that lie below the home because they were drawn there."""
    if not files:
        return
    endings = {file.rpartition("/")[2]: set[str]() for file in files}
    for file in files:
        endings[file.rpartition("/")[2]].add(f"/{file}")
    for folder in DRAWN:
        for path in sorted((home / folder).rglob("*")):
            wanted = endings.get(path.name, ())
            if any(path.as_posix().endswith(ending) for ending in wanted):
                yield path


# Which releases a withdrawal reaches, which rows of them, and which patches take their place.

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


def replan(
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


# What a withdrawal erases beside files of the blob store, found out and changed by nothing.


class Erasure(NamedTuple):
    """What is erased of releases and pages.

    Attributes:
        releases: by the id of a release, the files of its folder that go, as they are called there.
        marked: the ids of releases whose folders tell of all that goes already.
        pages: where below the home pages lie that go.
        evaluations: how many show any of it in an example, which goes.
    """

    releases: Mapping[str, tuple[str, ...]]
    marked: frozenset[str]
    pages: tuple[str, ...]
    evaluations: int


def erasure_of_releases(
    affected: Iterable[AffectedRelease], ground: Ground, *, erases: bool
) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """The files that go of each release, by id, and the releases that are marked already."""
    files, marked = dict[str, tuple[str, ...]](), set[str]()
    for one in affected:
        id_, folder = one.release.manifest.id, one.release.folder
        if not _lies_in(folder, id_):
            continue
        if erases:
            files[id_] = _files(one, ground)
        if _is_marked(one):
            marked.add(id_)
    return files, frozenset(marked)


def erasure_of_pages(
    store: Store, home: Path | None, entities: Collection[str], datasets: Iterable[str]
) -> tuple[tuple[str, ...], int]:
    """The pages below the home that go, and how many evaluations show any of the entities."""
    pages = pages_of(home, datasets, known=datasets_of(store)) if home is not None else []
    return tuple(pages), count_showing(store, entities)


def _files(affected: AffectedRelease, ground: Ground) -> tuple[str, ...]:
    folder = affected.release.folder
    found = files_to_erase(folder, [affected.notice("planned", ground)])
    return tuple(sorted(path for path in found if (folder / path).is_file()))


def _is_marked(affected: AffectedRelease) -> bool:
    try:
        mark = read_mark(affected.release.folder)
    except IntegrityError:
        return False
    return mark is not None and affected.is_told(mark.notices)


def _lies_in(folder: Path, release: str) -> bool:
    if not (folder / MANIFEST).is_file():
        return False
    try:
        return read_manifest(folder).id == release
    except (ValidationError, ValueError, OSError):
        return False


# What a withdrawal would do, found out and changed by nothing: what is shown before it is done.

ANNOTATOR = "annotator"


class WithdrawalPlan(NamedTuple):
    """What would go, and what would not.

    Attributes:
        request: what is asked for.
        reached: all that goes, by id, with the reason of each; also what is withdrawn already.
        named: what people know that by, by id, where they know it by anything.
        reopened: what is to be decided on anew.
        erased: files that go.
        kept: files that stay although they are of something that goes, with what needs them.
        affected: releases and the patches that take their place.
        erasure: what goes beside these files: of the folders of releases, and of pages.
        beside: the ids of all releases of the datasets of these.
        untold: the ids of releases of which earlier withdrawals on the same request, if there are
            any, did not tell all that they hold.
        earlier: withdrawals on the same request.
    """

    request: WithdrawalRequest
    reached: Closure
    named: Mapping[str, Named]
    reopened: tuple[str, ...]
    erased: tuple[Blob, ...]
    kept: Mapping[str, str]
    affected: Affected
    erasure: Erasure
    beside: frozenset[str]
    untold: tuple[str, ...]
    earlier: tuple[StoredWithdrawal, ...]

    @property
    def new(self) -> list[str]:
        """The ids of what goes and is not withdrawn yet."""
        return [id_ for id_, one in self.reached.items() if one.state != "withdrawn"]

    @property
    def is_done(self) -> bool:
        """Whether the same was asked for before, and nothing has come since that would go.

        Nor is it done where a release holds something of it that nobody was told of.
        """
        return bool(self.earlier) and not (self.new or self.reopened or self.untold)

    @property
    def unfinished(self) -> StoredWithdrawal | None:
        """A withdrawal on the same request that has still steps to do."""
        return next((one for one in self.earlier if not one.is_finished), None)

    def counts(self) -> list[WithdrawalCount]:
        """What goes, by dataset and kind."""
        found = Counter((one.dataset, one.kind) for one in self.reached.values())
        return [
            WithdrawalCount(dataset=dataset, kind=kind, entities=count)
            for (dataset, kind), count in sorted(found.items())
        ]

    def reasons(self) -> dict[str, int]:
        """How much was reached in which way: by a role, or by the same bytes."""
        return dict(Counter(one.because for one in self.reached.values()).most_common())

    def as_json(self) -> dict[str, Any]:
        """The plan as it is printed for programs."""
        target = self.request.target
        return {
            "target": target.model_dump(mode="json"),
            "ground": self.request.ground,
            "erases": self.request.erases,
            "counts": [one.model_dump(mode="json") for one in self.counts()],
            "reasons": self.reasons(),
            "entities": [
                {**one._asdict(), "is_new": one.state != "withdrawn", **self._name(one.id)}
                for one in self.reached.values()
            ],
            "reopened": list(self.reopened),
            "erased": [blob._asdict() for blob in self.erased],
            "kept": dict(self.kept),
            "releases": [self._release(one) for one in self.affected.releases],
            "pages": list(self.erasure.pages),
            "evaluations": self.erasure.evaluations,
            "patches": [
                {
                    "dataset": one.base.manifest.dataset,
                    "tier": one.base.manifest.tier,
                    "from": one.base.manifest.version,
                    "version": one.version,
                    "rows": one.rows,
                }
                for one in self.affected.patches
            ],
            "earlier": [one.key for one in self.earlier],
        }

    def _name(self, entity_id: str) -> dict[str, str]:
        named = self.named.get(entity_id, Named())
        return {name: value for name, value in named._asdict().items() if value is not None}

    def _release(self, one: AffectedRelease) -> dict[str, Any]:
        manifest = one.release.manifest
        return {
            "release": manifest.id,
            "dataset": manifest.dataset,
            "version": manifest.version,
            "folder": str(one.release.folder),
            "rows": [row.model_dump(mode="json") for row in one.rows],
            "rows_known": one.is_known,
            "rows_undescribed": list(one.undescribed),
            "people": list(one.people),
            "erased": list(self.erasure.releases.get(manifest.id, ())),
            "superseded_by": one.superseded_by,
        }


def reaches_beyond(request: WithdrawalRequest) -> bool:
    """Whether the same thing elsewhere goes, too: not where one dataset's own work is wrong.

    What an annotator takes back is the work, not what it is about.
    """
    return request.ground != "quality" and request.target.sort != ANNOTATOR


def plan_withdrawal(
    store: Store, request: WithdrawalRequest, home: Path | None = None
) -> WithdrawalPlan:
    """Finds out what a withdrawal would do. Nothing is changed.

    `home` is where pages lie; without it, none are told.

    Raises:
        UsageError: nothing can be meant by the target.
        IntegrityError: the rows of an affected release cannot be read.
    """
    with store.read() as connection:
        reached = _reached(connection, request)
        earlier = tuple(earlier_of(connection, request))
        reopened = _reopened(connection, request, reached)
        own = [id_ for id_, one in reached.items() if one.holds] if request.erases else []
        blobs = blobs_of(connection, own)
        kept = needed_blobs(connection, blobs, reached.keys())
        beside = frozenset(releases_beside(connection, reached.keys()))
        named = names_of(connection, reached)
    affected = affected_releases(store, reached.keys())
    told = [notice for one in earlier for notice in notices_of(store, one.id)]
    untold = tuple(
        one.release.manifest.id for one in affected.releases if earlier and not one.is_told(told)
    )
    erased = tuple(sorted(blob for blob in blobs if blob.sha256 not in kept))
    return WithdrawalPlan(
        request,
        reached,
        named,
        reopened,
        erased,
        kept,
        affected,
        _erasure(store, home, request, reached, affected),
        beside,
        untold,
        earlier,
    )


def _erasure(
    store: Store,
    home: Path | None,
    request: WithdrawalRequest,
    reached: Closure,
    affected: Affected,
) -> Erasure:
    files, marked = erasure_of_releases(affected.releases, request.ground, erases=request.erases)
    if not request.erases:
        return Erasure(files, marked, (), 0)
    datasets = {one.dataset for one in reached.values()}
    return Erasure(files, marked, *erasure_of_pages(store, home, reached.keys(), datasets))


def confirm(store: Store, plan: WithdrawalPlan, reason: str, agent: AgentRef) -> StoredWithdrawal:
    """Records the withdrawal as it was planned: from now on what it takes back is withdrawn.

    Raises:
        UsageError: what would go, or what was released, has changed since; nothing was recorded.
    """
    request = plan.request
    key = key_of(request, len(plan.earlier))
    with store.read() as connection:
        holding = [id_ for id_, one in plan.reached.items() if one.holds]
        refused = refused_digests(connection, holding) if reaches_beyond(request) else set()
    if request.target.sort == "file" and reaches_beyond(request):
        refused.add(request.target.name)  # where only what looks like it is stored, too
    new = NewWithdrawal(
        key,
        request,
        reason,
        agent,
        told=_told(plan),
        entities=plan.reached.keys(),
        reopened=plan.reopened,
        refused=refused,
        erased=plan.erased,
        notices=[
            one.notice(key, request.ground)
            for one in plan.affected.releases
            if one.rows or not one.is_known
        ],
    )

    def still_so(connection: Connection) -> bool:
        reached = _reached(connection, request)
        return (
            reached.keys() == plan.reached.keys()
            and len(earlier_of(connection, request)) == len(plan.earlier)
            and releases_beside(connection, reached.keys()) == plan.beside
        )

    return record_withdrawal(store, new, still_so)


class Swept(NamedTuple):
    """How much had come to hang on what a withdrawal takes back, and how much that is now."""

    new: int
    all: int


def sweep(store: Store, withdrawal: StoredWithdrawal) -> Swept:
    """Withdraws what has come to hang, since it was recorded, on what a withdrawal takes back.

    Files of what was stored as withdrawn since are from now on to be erased, too.
    """
    found = 0
    while True:
        with store.no_writers():  # what they have seen no withdrawal of is stored from here on
            pass
        new, all_ = _sweep_once(store, withdrawal)
        found += new
        if not new:
            return Swept(found, all_)


def _sweep_once(store: Store, withdrawal: StoredWithdrawal) -> Swept:
    request = withdrawal.request
    known = set(withdrawn_entities(store, withdrawal.id))
    with store.read() as connection:
        reached = _reached(connection, request)
        new = reached.keys() - known
        holding = [id_ for id_, one in reached.items() if one.holds]
        refused = refused_digests(connection, holding) if reaches_beyond(request) else set()
        blobs = blobs_of(connection, holding) if request.erases else {}
        kept = needed_blobs(connection, blobs, known | new)
    erased = [blob for blob in blobs if blob.sha256 not in kept]
    extend_withdrawal(store, withdrawal, new, refused, erased)
    return Swept(len(new), len(known | new))


def _told(plan: WithdrawalPlan) -> dict[str, Any]:
    """What is noted of a plan as it is confirmed: what is to be built, and what was counted."""
    return {
        "patches": [
            {"base": one.base.manifest.id, "version": one.version, "rows": one.rows}
            for one in plan.affected.patches
        ],
        "entities": len(plan.reached),
        "reopened": len(plan.reopened),
        "files_erased": len(plan.erased),
        "files_kept": len(plan.kept),
        "releases": len(plan.affected.releases),
    }


def _reached(connection: Connection, request: WithdrawalRequest) -> Closure:
    targets = meant_by(connection, request.target)
    return closure(connection, targets, reaches=reaches_beyond(request))


def _reopened(
    connection: Connection, request: WithdrawalRequest, reached: Closure
) -> tuple[str, ...]:
    if request.target.sort != ANNOTATOR:
        return ()
    judged = judged_alone(connection, request.target.name)
    return tuple(one for one in judged if one not in reached)


def request_of(target: WithdrawalTarget, ground: Ground, erases: bool | None) -> WithdrawalRequest:
    """A request; where nothing is said of bytes, the ground decides whether they go."""
    return WithdrawalRequest(target, ground, ground in ERASING if erases is None else erases)
