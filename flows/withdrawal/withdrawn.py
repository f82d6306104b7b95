"""Withdrawals from releases that this installation knows."""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from db.engine import is_there
from db.lineage import Lineage
from db.store import Store
from db.withdrawals import notices_of
from models.profiles.settings import Settings
from release.manifest import manifest_in
from release.notices import affected_rows, known_of, notices_of_home, withdrawn_sentence
from release.notices_files import WITHDRAWN, followed, merged, superseding
from schemas.base import Record
from schemas.errors import IntegrityError
from schemas.provenance import WITHHELD_WHOLE
from schemas.release import Count, HexSha256, Manifest, Version
from schemas.withdrawal import Ground, WithdrawalNotice, WithdrawnRow


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
        rows: number of rows that must no longer be used, or lost texts.
        grounds: the grounds of the withdrawals.
        superseded_by: the version to use instead; None if there is none.
        sentence: the summary in one sentence, with the first rows.
    """

    release: HexSha256
    rows: Count
    grounds: tuple[Ground, ...]
    superseded_by: Version | None
    sentence: str


def known_notices(settings: Settings) -> tuple[WithdrawalNotice, ...]:
    """Return the notices in the store, if there is one, and below the home.

    Raises:
        ConfigurationError: the store does not answer.
        IntegrityError: a file of notices cannot be read.
    """
    if not is_there(settings.database_url):
        return followed(notices_of_home(settings.home))
    store = Store.open(settings.database_url)
    try:
        return notices_known(settings.home, store)
    finally:
        store.close()


def notices_known(home: Path, store: Store) -> tuple[WithdrawalNotice, ...]:
    """Return the notices in an open store and below the home; those of the store take precedence.

    Raises:
        IntegrityError: a file of notices cannot be read.
    """
    return followed(merged(notices_of_home(home), notices_of(store)))


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
    return ReleaseWithdrawal(
        release=manifest.id,
        rows=len(affected_rows(notices)),
        grounds=tuple(dict.fromkeys(one.ground for one in notices)),
        superseded_by=superseding(notices),
        sentence=withdrawn_sentence(notices, manifest.statistics.images),
    )


def withdrawal_in(folder: Path, known: Iterable[WithdrawalNotice]) -> ReleaseWithdrawal | None:
    """Return what is withdrawn from the release in `folder`; None if its manifest is unreadable.

    Raises:
        IntegrityError: the mark cannot be read.
    """
    given = tuple(known)
    manifest = _manifest_of(folder, given)
    return None if manifest is None else withdrawal_of(manifest, folder, given)


def withdrawn_in(folder: Path, known: Iterable[WithdrawalNotice]) -> tuple[WithdrawnRow, ...]:
    """Return all rows withdrawn from the release in `folder`, by its mark and by notices.

    Empty if its manifest cannot be read; an unreadable mark is ignored.
    """
    given = tuple(known)
    manifest = _manifest_of(folder, given)
    if manifest is None:
        return ()
    try:
        return affected_rows(known_of(manifest.id, folder, given))
    except IntegrityError:
        return affected_rows(known_of(manifest.id, None, given))


def _manifest_of(folder: Path, known: Collection[WithdrawalNotice]) -> Manifest | None:
    """Return the manifest of a release that may have withdrawals; None if it was not read.

    The manifest of a large release takes a second to read.
    """
    if not known and not os.path.lexists(folder / WITHDRAWN):
        return None
    return manifest_in(folder)
