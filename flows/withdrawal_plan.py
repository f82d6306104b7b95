"""What a withdrawal would do, found out and changed by nothing: what is shown before it is done."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection

from db.agents import AgentRef
from db.store import Store
from db.withdrawal_bytes import Blob, blobs_of, needed_blobs, refused_digests
from db.withdrawal_closure import Closure, closure
from db.withdrawal_names import Named, names_of
from db.withdrawal_notices import notices_of, releases_beside
from db.withdrawal_recording import NewWithdrawal, extend_withdrawal, record_withdrawal
from db.withdrawal_targets import WithdrawalTarget, meant_by
from db.withdrawal_traces import judged_alone
from db.withdrawals import (
    StoredWithdrawal,
    WithdrawalRequest,
    earlier_of,
    key_of,
    withdrawn_entities,
)
from flows.withdrawal_erasure import Erasure, erasure_of_pages, erasure_of_releases
from flows.withdrawal_releases import Affected, AffectedRelease, affected_releases
from schemas.withdrawal import ERASING, Ground, WithdrawalCount

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
