"""Ends a run with its release."""

from flows.context import RunContext
from flows.report import BuildReport
from release.build import build_release
from schemas.retrieval_task import Tier


def release(
    context: RunContext, report: BuildReport, version: str, tier: Tier | None = None
) -> None:
    """Builds the release of the report's dataset under the home of the installation.

    `tier` is that of a benchmark of tasks (`release.tiers`).

    Raises:
        UsageError: nothing can be released.
        IntegrityError: the version was released with other content.
    """
    report.release = context.settings.home / "releases" / f"{report.dataset}-{version}"
    built = build_release(
        context.store, context.blobs, report.dataset, version, report.release, tier=tier
    )
    report.release_id = built.manifest.id
