"""Execute a confirmed withdrawal step by step; each step can be repeated."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from loupe.annotate.backend import Desks
from loupe.annotate.projects import erase
from loupe.db.entities import datasets_of
from loupe.db.evaluations import forget_examples
from loupe.db.releases import list_releases
from loupe.db.reviews import review_tasks
from loupe.db.withdrawal_graph import needed_blobs
from loupe.db.withdrawal_traces import (
    close_reviews,
    drop_checkpoints,
    erase_answers_of,
    forget_contents,
    forget_person,
    forget_vectors,
    return_answers,
    text_digests,
)
from loupe.db.withdrawals import (
    StoredWithdrawal,
    confirmed_details,
    counts_of,
    erased_blobs,
    finish,
    list_withdrawals,
    notices_of,
    record_step,
    steps_of,
    withdrawn_entities,
)
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.desks import open_desks
from loupe.flows.engine.release_facts import release_facts
from loupe.flows.engine.releasing import release_checks, release_signer
from loupe.flows.shards.files import erase_withdrawn
from loupe.flows.withdrawal.plan import ANNOTATOR, erase_pages, sweep
from loupe.flows.withdrawal.releases import Patch, is_outside
from loupe.release.build import build_release
from loupe.release.card.strata import count_strata
from loupe.release.format.files import remove_abandoned
from loupe.release.format.manifest import MANIFEST, read_files
from loupe.release.rebuild import rebuild_inputs
from loupe.release.shortcuts import certify_build
from loupe.release.withdrawn.notices import mark_release, record_notices
from loupe.schemas.errors import LoupeError, UsageError
from loupe.schemas.release import Manifest

Details = Mapping[str, Any]
OnStep = Callable[[str, Details], None]
"""Receives the name and details of each completed step, before it is recorded."""


class Step(NamedTuple):
    """A step of a withdrawal.

    Attributes:
        name: stays the same across runs.
        do: executes the step and returns its details.
        may_fail: whether later steps are done even if it failed.
        repeats: whether it is repeated if any step is left, as more may have been derived since.
    """

    name: str
    do: Callable[[], Details]
    may_fail: bool = False
    repeats: bool = False


def carry_out(
    context: RunContext,
    withdrawal: StoredWithdrawal,
    on_step: OnStep = lambda _name, _details: None,
    desks: Desks | None = None,
) -> None:
    """Do the remaining steps of a withdrawal; none for a finished one.

    If a release cannot be built, or Label Studio does not answer, all other steps are done. `desks`
    default to those of the settings.

    Raises:
        LoupeError: a step failed, with the reason; run it again after removing the cause.
    """
    if withdrawal.is_finished:
        return
    while True:
        work = _Work(context, withdrawal, desks)
        done = {one.step for one in steps_of(context.store, withdrawal.id)}
        failures: list[LoupeError] = []
        for step in work.steps():
            if step.name in done and not step.repeats:
                continue
            try:
                details = step.do()
            except LoupeError as error:
                if not step.may_fail:
                    raise
                failures.append(error)
            else:
                on_step(step.name, details)
                record_step(context.store, withdrawal.id, step.name, details)
        if failures:
            raise failures[0]
        if finish(context.store, withdrawal.id, work.entity_count):
            return


def resume_reopened(context: RunContext) -> None:
    """Continue finished withdrawals for which a concurrent run derived more entities.

    Other unfinished withdrawals are left to the process that confirmed them.

    Raises:
        LoupeError: the first error of a failed step, after all withdrawals were continued.
    """
    failures: list[LoupeError] = []
    for one in list_withdrawals(context.store):
        if one.is_finished:
            continue
        done = {step.step for step in steps_of(context.store, one.id)}
        if all(step.name in done for step in _Work(context, one).steps()):
            try:
                carry_out(context, one)
            except LoupeError as error:
                failures.append(error)
    if failures:
        raise failures[0]


class _Work:
    """The steps of one withdrawal; each returns its details, the same when it is repeated."""

    def __init__(
        self, context: RunContext, withdrawal: StoredWithdrawal, desks: Desks | None = None
    ) -> None:
        self._context = context
        self._desks = desks
        self._store = context.store
        self._id = withdrawal.id
        self._withdrawal = withdrawal
        self._request = withdrawal.request
        self._confirmed = confirmed_details(context.store, withdrawal.id)
        self._notices = notices_of(context.store, withdrawal.id)
        self.entity_count = 0

    def steps(self) -> Iterator[Step]:
        """All steps in order: notices come first, so that readers of files are warned."""
        if self._notices:
            yield Step("write notices", self._write_notices, may_fail=True)
        for notice in self._notices:
            name = f"mark {notice.dataset} {notice.version}"
            yield Step(name, partial(self._mark, notice.release), may_fail=True)
        yield Step("find what came since", self._sweep, repeats=True)
        yield Step("close questions", self._close_questions, repeats=True)
        if self._request.target.sort == ANNOTATOR:
            yield Step("count answers no more", self._return_answers)
        if self._request.erases:
            yield Step("delete from Label Studio", self._erase_tasks, may_fail=True, repeats=True)
            yield Step("forget vectors", self._forget, repeats=True)
            yield Step("erase records of shards", self._erase_in_shards, repeats=True)
            yield Step("erase files", self._erase, repeats=True)
            yield Step("erase pages", self._erase_pages, repeats=True)
        known = {one.manifest.id: one for one in list_releases(self._store)}
        for one in self._confirmed["patches"]:
            patch = Patch(known[one["base"]], one["version"], one["rows"])
            name = f"release {patch.base.manifest.dataset} {patch.version}"
            yield Step(name, partial(self._release, patch), may_fail=True)

    def _write_notices(self) -> Details:
        """Write the notices to publish."""
        home = self._context.settings.home
        try:
            paths = record_notices(home, self._notices)
        except OSError as error:
            raise UsageError(f"notices cannot be written to {home} ({error.strerror})") from error
        return {"files": [path.name for path in paths]}

    def _mark(self, release: str) -> Details:
        """Mark the folder of a release, and erase its files if the withdrawal erases files."""
        (stored,) = (one for one in list_releases(self._store) if one.manifest.id == release)
        is_named = str(stored.folder) in self._confirmed["outside"]
        if is_outside(self._store, stored.folder) and not is_named:
            skipped = (
                f"{stored.folder} is outside the home and was not named when this was confirmed: "
                f"delete it, or replace it with the new version"
            )
            return {"skipped": skipped, "erased": 0}
        own = [one for one in self._notices if one.release == release]
        try:
            marked = mark_release(stored.folder, own, erase=self._request.erases)
        except OSError as error:
            raise UsageError(f"{stored.folder} cannot be marked ({error.strerror})") from error
        return {"skipped": marked.skipped, "erased": marked.erased}

    def _sweep(self) -> Details:
        """Withdraw what concurrent runs have derived since the withdrawal was planned."""
        added, self.entity_count = sweep(self._store, self._withdrawal)
        return {"entities": added}

    def _close_questions(self) -> Details:
        """Close the questions about withdrawn entities and those that show them."""
        number = self._id if self._request.erases else None
        return {"closed": close_reviews(self._store, self._entities(), self._digests(), number)}

    def _return_answers(self) -> Details:
        """Discount an annotator's answers; erase the name if the withdrawal erases files."""
        person, is_forgotten = self._request.target.name, False
        answers = return_answers(self._store, person)
        if self._request.erases:
            erase_answers_of(self._store, person, self._id)
            is_forgotten = forget_person(self._store, person)
        return {"answers": answers, "name_forgotten": is_forgotten}

    def _erase_tasks(self) -> Details:
        """Delete tasks with their answers from Label Studio, which may be down."""
        tasks = list(review_tasks(self._store, erased_by=self._id).values())
        desks = self._desks or open_desks(self._context.settings, self._store)
        return {"tasks": erase(self._store, desks, tasks) if tasks else 0}

    def _forget(self) -> Details:
        """Delete vectors and checkpoints of erased entities."""
        ids = self._entities()
        texts = text_digests(self._store, ids)
        encoded = forget_contents(self._store, self._id, self._encoded(set(ids)))
        return {
            "image_vectors": encoded + forget_vectors(self._store, self._digests()),
            "text_vectors": forget_contents(self._store, self._id, texts),
            "checkpoints": drop_checkpoints(self._store, ids),
        }

    def _encoded(self, ids: Collection[str]) -> Iterator[str]:
        """Yield the digests of these images as encoded for releases, whose manifests are here."""
        for one in list_releases(self._store):
            file = one.folder / MANIFEST
            if one.manifest.encoding is None or not file.is_file():
                continue
            for listed in read_files(file):
                if listed.entity_id in ids:
                    yield listed.sha256

    def _erase_in_shards(self) -> Details:
        """Erase the records of shards that entities were made of, and those with erased files."""
        digests = set(self._digests())
        return {"records": erase_withdrawn(self._context, self._entities(), digests)}

    def _erase(self) -> Details:
        """Erase files, except those that an entity needs that is not withdrawn."""
        blobs = erased_blobs(self._store, self._id)
        with self._store.read() as connection:
            needed = needed_blobs(connection, blobs).keys()
        erased = sum(
            self._context.blobs.erase(blob.sha256, blob.media_type)
            for blob in blobs
            if blob.sha256 not in needed
        )
        return {"files": len(blobs) - len(needed), "removed": erased, "needed": sorted(needed)}

    def _erase_pages(self) -> Details:
        """Remove pages of the datasets concerned, examples, and leftovers of killed builds."""
        examples = forget_examples(self._store, self._entities())
        datasets = {one.dataset for one in counts_of(self._store, self._id)}
        home = self._context.settings.home
        removed = erase_pages(home, datasets, known=datasets_of(self._store))
        parents = {one.folder.parent for one in list_releases(self._store)} | {home / "releases"}
        inside = [folder for folder in sorted(parents) if not is_outside(self._store, folder)]
        abandoned = [name for folder in inside for name in remove_abandoned(folder)]
        return {"removed": removed + abandoned, "evaluations": examples}

    def _release(self, patch: Patch) -> Details:
        """Build a patch, unless a release already has its version."""
        releases = list_releases(self._store, patch.base.manifest.dataset)
        existing = [one for one in releases if one.manifest.version == patch.version]
        manifest = existing[0].manifest if existing else self._build(patch)
        return {
            "id": manifest.id,
            "version": manifest.version,
            "images": manifest.statistics.images,
        }

    def _build(self, patch: Patch) -> Manifest:
        """Build a release from the state of an earlier one, without withdrawn entities."""
        manifest, settings = patch.base.manifest, self._context.settings
        inputs = rebuild_inputs(patch.base)
        checks = inputs.checks
        if checks.nearest is not None:  # computed over all rows, so it changes with fewer
            today = release_checks(
                self._store, settings, manifest.dataset, progress=self._context.progress
            )
            checks = checks._replace(nearest=today.nearest)
        stated = release_facts(settings.releases_file, manifest.dataset).permitted_terms
        permitted = {**stated, **checks.permitted_terms}
        # compared with all rows; the other datasets may no longer be there
        checks = checks._replace(contamination=(), permitted_terms=permitted, strata=count_strata)
        if certified := manifest.shortcuts:  # measured again; it must not stop a withdrawal
            again = partial(certify_build, accepted=certified.accepted, refuse=False)
            checks = checks._replace(certify=again)
        built = build_release(
            self._store,
            self._context.blobs,
            manifest.dataset,
            patch.version,
            settings.home / "releases" / f"{manifest.dataset}-{patch.version}",
            tier=inputs.tier,
            leak_limits=inputs.leak_limits,
            checks=checks,
            as_of=inputs.as_of._replace(corrected=True),
            signer=release_signer(settings),
        )
        return built.manifest

    def _entities(self) -> list[str]:
        return withdrawn_entities(self._store, self._id)

    def _digests(self) -> list[str]:
        return [blob.sha256 for blob in erased_blobs(self._store, self._id)]
