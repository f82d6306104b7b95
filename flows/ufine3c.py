"""`build-ufine3c`: from annotation files to a verified evaluation set (UFineBench, section 4.1)."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from annotate.queues import Queue, apply_policy, parse_policy, rewrite_queue
from annotate.sync import ReviewDesk, pull, push
from db.entities import find
from db.store import Store
from flows.checking import check_rewrites
from flows.context import RunContext
from flows.importing import import_source
from flows.report import StageReport
from flows.rewriting import rewrite_captions
from flows.sampling import draw_sample
from models.registry import build_chat_model
from prompts.loader import load_prompt
from release.build import build_release
from schemas.build import UFine3CBuild
from schemas.errors import ModelError
from schemas.profile import Profile
from schemas.records import Rewrite

_POLL_SECONDS = 5.0


@dataclass
class BuildReport:
    """What a run of the flow came to; `release` is None while people have still to decide."""

    dataset: str
    stages: list[StageReport] = field(default_factory=list)
    waiting: int = 0
    release: Path | None = None
    release_id: str | None = None


def build_ufine3c(
    context: RunContext,
    build: UFine3CBuild,
    profile: Profile,
    desk: ReviewDesk | None = None,
    *,
    wait: bool = False,
) -> BuildReport:
    """Does what can be done now: imports, draws, rewrites, checks, asks people, releases.

    Every step goes on from what is stored, so running it again costs only what is missing. Where
    people have to look, what they need is pushed to `desk` and the run ends (with `wait`: waits);
    the run after they have decided builds the release.

    Raises:
        UsageError: the build, a source or the profile cannot be used.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is gone; what came back before is stored.
    """
    queue = rewrite_queue(build.dataset, parse_policy(build.gate))
    report = BuildReport(build.dataset)
    for spec in build.sources:
        source, imported = import_source(context, spec)
        report.stages.append(imported)
        report.stages.append(draw_sample(context, build, spec, source))
    report.stages += _rewrite(context, build, profile)
    authors = [str(model.ref) for model in profile.rewrite.models]
    report.stages.append(check_rewrites(context, build.dataset, profile.faithfulness, authors))
    report.waiting = _review(context.store, queue, desk, wait=wait)
    if not report.waiting:
        out = context.settings.home / "releases" / f"{build.dataset}-{build.version}"
        manifest = build_release(context.store, context.blobs, build.dataset, build.version, out)
        report.release, report.release_id = out, manifest.id
    return report


def _rewrite(context: RunContext, build: UFine3CBuild, profile: Profile) -> list[StageReport]:
    settings = profile.rewrite
    prompt = load_prompt(settings.prompt)
    reports = []
    for spec in settings.models:
        model = build_chat_model(spec)
        report = rewrite_captions(context, build.dataset, model, spec, settings, prompt)
        reports.append(report)
        if report.deferred:
            reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(report.deferred.items()))
            raise ModelError(
                f"{spec.ref} did not answer ({reasons}); what came back is stored, "
                f"run again when it answers"
            )
    return reports


def _review(store: Store, queue: Queue, desk: ReviewDesk | None, *, wait: bool) -> int:
    """Applies the queue's policy and exchanges with `desk`; gives how many items still wait."""
    apply_policy(store, queue)
    while True:
        if desk is not None:
            pull(store, desk, queue)
            push(store, desk, queue)
        waiting = sum(1 for _ in find(store, queue.dataset, Rewrite.kind, states=("proposed",)))
        if not waiting or not wait:
            return waiting
        time.sleep(_POLL_SECONDS)
