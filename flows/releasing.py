"""Ends a run with its release."""

from collections.abc import Sequence
from typing import Protocol

from flows.contamination import NamedDatasets, contamination_inspection, held_against
from flows.context import RunContext
from flows.patched_release import patched_release
from flows.release_checks import release_checks
from flows.release_signing import release_signer
from flows.release_versions import all_of, version_inspection
from flows.report import BuildReport
from flows.source_terms import permissions
from release.build import build_release
from schemas.build import SourceSpec, VideoSourceSpec
from schemas.embedding import PlainModelSpec
from schemas.retrieval_task import Tier


class ReleasedBuild(Protocol):
    """What a build file says of its releases."""

    @property
    def sources(self) -> Sequence[SourceSpec | VideoSourceSpec]:
        """What it is built from; each may say why its terms permit the release."""
        ...

    @property
    def against(self) -> Sequence[str]:
        """The datasets that the release is held against."""
        ...

    @property
    def strict_version(self) -> bool:
        """Whether a version that is too small is refused."""
        ...


def release(
    context: RunContext,
    report: BuildReport,
    build: ReleasedBuild,
    version: str,
    tier: Tier | None = None,
    embedder: PlainModelSpec | None = None,
) -> None:
    """Builds the release of the report's dataset under the home of the installation.

    `tier` is that of a benchmark of tasks (`release.tiers`); `embedder` compares the samples of a
    contrastive one (None: that of the profile in force). The release is held against the datasets
    that the build names, and its version against what it differs in from the release before: what
    is wrong is told in the report, but a version that is too small may be refused. With a key in
    the settings it is signed. Where a withdrawal came between, what it put into the place of that
    version is the run's release, which the report tells (`flows.patched_release`).

    Raises:
        UsageError: nothing can be released, something of the version was withdrawn and nothing
            stands in its place, the version is too small, the key to sign with cannot
            be read, or there is nothing that it could be held against by that name.
        IntegrityError: the version was released with other content.
        ModelError: the embedder cannot be loaded, or cannot go on.
    """

    def warn(sentence: str) -> None:
        context.progress.say(f"warning: {sentence}")
        report.warnings.append(sentence)

    settings, store = context.settings, context.store
    if patched := patched_release(store, report.dataset, version):
        warn(patched.sentence)
        report.release = patched.release.folder
        report.release_id = patched.release.manifest.id
        return
    signer = release_signer(settings)
    checks = release_checks(store, settings, report.dataset, embedder, context.progress)
    named = NamedDatasets(lambda: context)
    checks = checks._replace(
        against=held_against(map(named.called, build.against)),
        permitted_terms={**checks.permitted_terms, **permissions(build.sources)},
    )
    report.release = context.settings.home / "releases" / f"{report.dataset}-{version}"
    built = build_release(
        store,
        context.blobs,
        report.dataset,
        version,
        report.release,
        tier=tier,
        checks=checks,
        signer=signer,
        inspect=all_of(
            version_inspection(store, context.blobs, warn, strict=build.strict_version),
            contamination_inspection(warn, refuse=False),
        ),
    )
    if built.unsigned:
        warn(built.unsigned)
    report.release_id = built.manifest.id
