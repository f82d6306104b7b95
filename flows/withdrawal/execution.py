"""Carries out a confirmed withdrawal, step by step; each step can be done again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from annotate.decisions import erase
from annotate.projects import Desks
from db.entities import datasets_of
from db.evaluations import forget_examples
from db.releases import UNMARKED, list_releases
from db.reviews import tasks_to_erase
from db.withdrawal_graph import (
    close_reviews,
    drop_checkpoints,
    erase_answers_of,
    forget_person,
    forget_texts,
    forget_vectors,
    return_answers,
    still_needed,
    text_digests,
)
from db.withdrawals import (
    StoredWithdrawal,
    confirmed_patches,
    counts_of,
    erased_blobs,
    finish,
    holding_releases,
    list_withdrawals,
    notices_of,
    record_step,
    renumber_notices,
    steps_of,
    withdrawn_entities,
)
from flows.engine.context import RunContext
from flows.engine.gates import open_desks
from flows.engine.releasing import release_checks, release_signer
from flows.withdrawal.plan import ANNOTATOR, Patch, erase_pages, replan, sweep
from release.build import build_release
from release.folder import remove_abandoned
from release.notices import mark_release, record_notices
from release.rebuild import rebuild_inputs
from schemas.errors import LoupeError, UsageError
from schemas.release import Manifest
from schemas.withdrawal import WithdrawalNotice

Told = Mapping[str, Any]
OnStep = Callable[[str, Told], None]
"""Told the name of each step as it was done, before that is noted, and what it came to."""


class Step(NamedTuple):
    """A step: its name, which is the same whoever does it, and what does it.

    One that others `may_overtake` keeps none of them waiting when it cannot be done. One that is
    done `anew` is so whenever anything is still to be done, as more may have come since.
    """

    name: str
    do: Callable[[], Told]
    may_overtake: bool = False
    anew: bool = False


def carry_out(
    context: RunContext,
    withdrawal: StoredWithdrawal,
    on_step: OnStep = lambda _name, _told: None,
    desks: Desks | None = None,
) -> None:
    """Does what is still to be done of a withdrawal; of a finished one that is nothing.

    Where a release cannot be built, or the review server is away, everything else is done all the
    same. The `desks` are those of the settings where none are given.

    Raises:
        LoupeError: a step cannot be done (one sentence says why); run it again when it can.
    """
    if withdrawal.is_finished:
        return
    while True:
        work = _Work(context, withdrawal, desks)
        _do(context, withdrawal, _steps(work, withdrawal), on_step)
        if finish(context.store, withdrawal.id, work.entities):
            return


def resume_reopened(context: RunContext, on_step: OnStep = lambda _name, _told: None) -> None:
    """Goes on with withdrawals that were finished until a run under way brought more of them.

    Others that are not finished are left to whoever carries them out.

    Raises:
        LoupeError: a step cannot be done; the first such error, after all others were gone on with.
    """
    failures: list[LoupeError] = []
    for one in list_withdrawals(context.store):
        if not one.is_finished and _was_finished(context, one):
            try:
                carry_out(context, one, on_step)
            except LoupeError as error:
                failures.append(error)
    if failures:
        raise failures[0]


def _was_finished(context: RunContext, withdrawal: StoredWithdrawal) -> bool:
    done = {one.step for one in steps_of(context.store, withdrawal.id)}
    steps = _steps(_Work(context, withdrawal), withdrawal)
    return all(step.name in done for step in steps)


def _do(
    context: RunContext, withdrawal: StoredWithdrawal, steps: Iterable[Step], on_step: OnStep
) -> None:
    done = {one.step for one in steps_of(context.store, withdrawal.id)}
    failures: list[LoupeError] = []
    for step in steps:
        if step.name in done and not step.anew:
            continue
        try:
            told = step.do()
        except LoupeError as error:
            if not step.may_overtake:
                raise
            failures.append(error)
        else:
            on_step(step.name, told)
            record_step(context.store, withdrawal.id, step.name, told)
    if failures:
        raise failures[0]


def _steps(work: "_Work", withdrawal: StoredWithdrawal) -> Iterator[Step]:
    notices = work.notices()
    if notices:  # first of all, so that nobody who only reads files takes them for sound
        yield Step("write notices", work.write_notices, may_overtake=True)
    for notice in notices:
        name = f"mark {notice.dataset} {notice.version}"
        yield Step(name, partial(work.mark, notice.release), may_overtake=True)
    yield Step("find what came since", work.sweep, anew=True)
    yield Step("close questions", work.close_questions, anew=True)
    if withdrawal.request.target.sort == ANNOTATOR:
        yield Step("count answers no more", work.return_answers)
    if withdrawal.request.erases:
        yield Step("delete on the desk", work.erase_tasks, may_overtake=True, anew=True)
        yield Step("forget vectors", work.forget, anew=True)
        yield Step("erase files", work.erase, anew=True)
        yield Step("erase pages", work.erase_pages, anew=True)
    for patch in work.patches():
        name = f"{patch.base.manifest.dataset} {patch.version}"
        yield Step(f"release {name}", partial(work.release, patch), may_overtake=True)


class _Work:
    """What the steps do; each gives what it came to, and done again comes to the same."""

    def __init__(
        self, context: RunContext, withdrawal: StoredWithdrawal, desks: Desks | None = None
    ) -> None:
        self._context = context
        self._desks = desks
        self._store = context.store
        self._withdrawal = withdrawal
        self.entities = 0

    def notices(self) -> list[WithdrawalNotice]:
        """What holders of releases are told."""
        return notices_of(self._store, self._withdrawal.id)

    def sweep(self) -> Told:
        """Withdraws what runs side by side have made, since it was shown, of what is withdrawn."""
        swept = sweep(self._store, self._withdrawal)
        self.entities = swept.all
        return {"entities": swept.new}

    def close_questions(self) -> Told:
        """Asks nobody any more about what is withdrawn, nor shows it."""
        erased = [blob.sha256 for blob in erased_blobs(self._store, self._withdrawal.id)]
        number = self._withdrawal.id if self._withdrawal.request.erases else None
        return {"closed": close_reviews(self._store, self._entities(), erased, number)}

    def return_answers(self) -> Told:
        """Lets an annotator's answers count no more, and the name be forgotten where bytes go."""
        person = self._withdrawal.request.target.name
        answers = return_answers(self._store, person)
        if self._withdrawal.request.erases:
            erase_answers_of(self._store, person, self._withdrawal.id)
        forgotten = self._withdrawal.request.erases and forget_person(self._store, person)
        return {"answers": answers, "name_forgotten": forgotten}

    def erase_tasks(self) -> Told:
        """Deletes tasks with their answers from the review server, which is away at times."""
        tasks = tasks_to_erase(self._store, self._withdrawal.id)
        desks = self._desks or open_desks(self._context.settings, self._store)
        return {"tasks": erase(self._store, desks, tasks) if tasks else 0}

    def forget(self) -> Told:
        """Deletes vectors of what is erased, and how far the work on it had come."""
        ids = self._entities()
        erased = [blob.sha256 for blob in erased_blobs(self._store, self._withdrawal.id)]
        texts = text_digests(self._store, ids)
        return {
            "image_vectors": forget_vectors(self._store, "image", erased),
            "text_vectors": forget_texts(self._store, self._withdrawal.id, texts),
            "checkpoints": drop_checkpoints(self._store, ids),
        }

    def erase(self) -> Told:
        """Erases files, but for those that something needs by now that is not withdrawn."""
        blobs = erased_blobs(self._store, self._withdrawal.id)
        needed = still_needed(self._store, blobs)
        erased = sum(
            self._context.blobs.erase(blob.sha256, blob.media_type)
            for blob in blobs
            if blob.sha256 not in needed
        )
        return {"files": len(blobs) - len(needed), "removed": erased, "needed": sorted(needed)}

    def erase_pages(self) -> Told:
        """Removes the pages of the datasets that something goes from, and shown examples of it.

        What killed builds left beside releases goes, too, whatever is in it.
        """
        examples = forget_examples(self._store, self._entities())
        datasets = {one.dataset for one in counts_of(self._store, self._withdrawal.id)}
        home = self._context.settings.home
        removed = erase_pages(home, datasets, known=datasets_of(self._store))
        beside = {one.folder.parent for one in list_releases(self._store)} | {home / "releases"}
        abandoned = [name for folder in sorted(beside) for name in remove_abandoned(folder)]
        return {"removed": removed + abandoned, "evaluations": examples}

    def patches(self) -> list[Patch]:
        """The releases to be built, as it was decided when the withdrawal was confirmed."""
        told = confirmed_patches(self._store, self._withdrawal.id)
        known = {one.manifest.id: one for one in list_releases(self._store)}
        return [Patch(known[one["base"]], one["version"], one["rows"]) for one in told]

    def release(self, patch: Patch) -> Told:
        """Has a release in the place of an earlier one; its notices name the version it got."""
        dataset, number = patch.base.manifest.dataset, self._withdrawal.id
        holding = holding_releases(self._store, number)
        found = replan(list_releases(self._store, dataset), patch, holding)
        manifest = self._build(found) if isinstance(found, Patch) else found.manifest
        if manifest.version != patch.version:
            renumber_notices(self._store, number, dataset, patch.version, manifest.version)
            self._tell_anew(dataset)
        return {
            "id": manifest.id,
            "version": manifest.version,
            "images": manifest.statistics.images,
        }

    def _build(self, patch: Patch) -> Manifest:
        """Builds a release of the state of an earlier one, but for what is withdrawn."""
        manifest, settings = patch.base.manifest, self._context.settings
        inputs = rebuild_inputs(patch.base)
        checks = inputs.checks
        if checks.nearest is not None:  # of all rows, so of fewer it is another number
            today = release_checks(
                self._store, settings, manifest.dataset, progress=self._context.progress
            )
            checks = checks._replace(nearest=today.nearest)
        built = build_release(
            self._store,
            self._context.blobs,
            manifest.dataset,
            patch.version,
            settings.home / "releases" / f"{manifest.dataset}-{patch.version}",
            tier=inputs.tier,
            leak_limits=inputs.leak_limits,
            checks=checks,
            as_of=None if patch.base.mark == UNMARKED else inputs.as_of,
            signer=release_signer(settings),
        )
        return built.manifest

    def mark(self, release: str) -> Told:
        """Says in the folder of a release what was withdrawn from it; erases what is to go."""
        (stored,) = (one for one in list_releases(self._store) if one.manifest.id == release)
        own = [one for one in self.notices() if one.release == release]
        try:
            marked = mark_release(stored.folder, own, erase=self._withdrawal.request.erases)
        except OSError as error:
            raise UsageError(f"{stored.folder} cannot be marked ({error.strerror})") from error
        return {"skipped": marked.skipped, "erased": marked.erased}

    def write_notices(self) -> Told:
        """Keeps notices to be published."""
        home = self._context.settings.home
        try:
            paths = record_notices(home, self.notices())
        except OSError as error:
            raise UsageError(f"notices cannot be written to {home} ({error.strerror})") from error
        return {"files": [path.name for path in paths]}

    def _tell_anew(self, dataset: str) -> None:
        """Writes notices and marks once more, as what they tell to use instead has changed."""
        self.write_notices()
        for notice in self.notices():
            if notice.dataset == dataset:
                self.mark(notice.release)

    def _entities(self) -> list[str]:
        return withdrawn_entities(self._store, self._withdrawal.id)
