"""The releases that hold what was withdrawn, and what their holders are told."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from db.entities import pages
from db.releases import REFERRED
from db.store import Store, retried
from db.tables.provenance import Entity
from db.tables.releases import Release, ReleaseItem
from db.tables.withdrawals import WithdrawalNotice as NoticeRow
from db.tables.withdrawals import WithdrawnEntity
from schemas.withdrawal import WithdrawalNotice


def releases_holding(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """The ids of the releases in which any of these entities stands."""
    found: set[str] = set()
    query = select(ReleaseItem.release_id).distinct()
    for page in pages(sorted(entity_ids)):
        found.update(connection.execute(query.where(ReleaseItem.entity_id.in_(page))).scalars())
    return found


def releases_beside(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """The ids of all releases of those datasets of which one holds any of these entities."""
    datasets: set[str] = set()
    query = select(Release.dataset).distinct()
    for page in pages(releases_holding(connection, entity_ids)):
        datasets.update(connection.execute(query.where(Release.id.in_(page))).scalars())
    beside = select(Release.id).where(Release.dataset.in_(datasets))
    return set(connection.execute(beside).scalars())


@retried
def holding_releases(store: Store, withdrawal: int) -> set[str]:
    """The ids of the releases in which anything stands that a withdrawal takes back."""
    query = (
        select(ReleaseItem.release_id)
        .distinct()
        .join(WithdrawnEntity, WithdrawnEntity.entity_id == ReleaseItem.entity_id)
        .join(Entity, Entity.id == ReleaseItem.entity_id)
        .where(WithdrawnEntity.withdrawal_id == withdrawal, Entity.kind.not_in(REFERRED))
    )
    with store.read() as connection:
        return set(connection.execute(query).scalars())


@retried
def notices_of(store: Store, withdrawal: int) -> list[WithdrawalNotice]:
    """What a withdrawal tells holders of releases, by dataset and version."""
    query = select(NoticeRow.notice).where(NoticeRow.withdrawal_id == withdrawal)
    with store.read() as connection:
        return _notices(connection.execute(query).scalars())


@retried
def all_notices(store: Store) -> list[WithdrawalNotice]:
    """What holders of all releases are told of all withdrawals, by dataset and version."""
    query = select(NoticeRow.notice).order_by(NoticeRow.withdrawal_id)
    with store.read() as connection:
        return _notices(connection.execute(query).scalars())


def dataset_notices(connection: Connection, dataset: str, mark: int) -> list[WithdrawalNotice]:
    """What holders of all releases of a dataset are told of the withdrawals up to `mark`."""
    query = select(NoticeRow.notice).where(NoticeRow.withdrawal_id <= mark)
    found = _notices(connection.execute(query.order_by(NoticeRow.withdrawal_id)).scalars())
    return [one for one in found if one.dataset == dataset]


@retried
def renumber_notices(store: Store, withdrawal: int, dataset: str, old: str, new: str) -> None:
    """Tells holders to use the version `new` where a withdrawal told them to use `old`."""
    query = select(NoticeRow.release_id, NoticeRow.notice)
    with store.write() as connection:
        for row in connection.execute(query.where(NoticeRow.withdrawal_id == withdrawal)).all():
            if (row.notice["dataset"], row.notice["superseded_by"]) == (dataset, old):
                connection.execute(
                    update(NoticeRow)
                    .where(
                        NoticeRow.withdrawal_id == withdrawal,
                        NoticeRow.release_id == row.release_id,
                    )
                    .values(notice={**row.notice, "superseded_by": new})
                )


def _notices(rows: Iterable[Mapping[str, Any]]) -> list[WithdrawalNotice]:
    found = [WithdrawalNotice.model_validate(row) for row in rows]
    return sorted(found, key=lambda one: (one.dataset, tuple(map(int, one.version.split(".")))))
