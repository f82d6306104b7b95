"""The manifest of a release as far as its rows tell: all but its lineage, its files and its id."""

from typing import NamedTuple

from release.checks import Checks
from release.contents import Contents
from release.manifest import unnamed
from release.model_use import is_demonstration
from release.row_writing import ReleaseAccumulator
from release.scratch import Scratch
from release.statistics import is_reviewed
from release.terms import licence_statistics, terms_of
from schemas.errors import UsageError
from schemas.leaks import LeakLimits
from schemas.quality import AuditStatistics
from schemas.records import Granularity
from schemas.release import ContainedRelease, Manifest, ReleaseStatistics
from schemas.retrieval_task import Tier


class ReleaseSpec(NamedTuple):
    """Which release is built, up to which limits its splits may leak, and what is known of it."""

    dataset: str
    version: str
    tier: Tier | None
    leak_limits: LeakLimits
    checks: Checks


def draft_manifest(
    wanted: ReleaseSpec,
    contents: Contents,
    tally: ReleaseAccumulator,
    scratch: Scratch,
    audits: tuple[AuditStatistics, ...],
    contains: tuple[ContainedRelease, ...],
) -> Manifest:
    """The manifest of a release whose rows are all written.

    `audits` are the results of audits, `contains` the releases whose rows it all has.

    Raises:
        UsageError: it would be empty (one sentence says why).
    """
    sources, prompts, videos = contents.sources(), contents.prompts(), contents.videos()
    models, trackers = contents.models(), contents.trackers()
    makers = (*trackers, *(editor for editor, _ in contents.editors()))
    tally.add_entities([source.entity_id for source in sources])
    tally.add_entities([prompt.entity_id for prompt in prompts])
    tally.add_entities([video.entity_id for video in videos])
    statistics = _statistics(wanted, contents, tally, scratch, audits)
    if not statistics.captions:
        raise UsageError(_empty_release_reason(wanted.dataset, scratch.count_images(), statistics))
    return unnamed(
        dataset=wanted.dataset,
        version=wanted.version,
        tier=wanted.tier,
        contains=contains,
        demonstration=is_demonstration(models, sources, makers),
        unreviewed=not is_reviewed(statistics),
        entities_sha256=tally.entities_sha256,
        sources=sources,
        prompts=prompts,
        models=models,
        videos=videos,
        trackers=trackers,
        statistics=statistics,
        leaks=tally.splits.certificate(wanted.leak_limits),
        contamination=wanted.checks.held_against(tally.own),
        about=wanted.checks.about,
        terms=terms_of(tally.held(sources, statistics), wanted.checks.permitted_terms),
    )


_FIRST_TIER = {"confusions": "v1", "confuse_caption": "v1", "duplicates": "v2"}
"""The tier before which a gate or stage has no part in a release; v0 for all others."""


def _statistics(
    wanted: ReleaseSpec,
    contents: Contents,
    tally: ReleaseAccumulator,
    scratch: Scratch,
    audits: tuple[AuditStatistics, ...],
) -> ReleaseStatistics:
    granularities = {one.name: one.granularity for one in contents.sources()}
    if contents.form.contrasts:  # coarse captions stand apart
        granularities = dict.fromkeys(granularities, Granularity.FINE)
    checks = wanted.checks

    def has_part(name: str) -> bool:
        return wanted.tier is None or wanted.tier >= _FIRST_TIER.get(name, "v0")

    counted = tally.statistics.result(granularities, audits, contents.tracklets())
    return counted.model_copy(
        update={
            "licences": licence_statistics(scratch.credits()),
            "contrasts": tally.contrast_statistics(contents),
            "choices": checks.choices,
            "agreement": checks.agreement,
            "unused": tuple(one for one in checks.unused if has_part(one.stage)),
            "gates": tuple(one for one in checks.gates if has_part(one.gate)),
        }
    )


def _empty_release_reason(dataset: str, images: int, statistics: ReleaseStatistics) -> str:
    """The sentence for a dataset of so many images, none of which may be released.

    `statistics` are those of the release that there would be.
    """
    reasons = [f"it has {_counted(images, 'image')}, none of them with a caption"]
    rewrites, contrasts = statistics.rewrites, statistics.contrasts
    if rewrites.pending:
        reasons.append(f"{_counted(rewrites.pending, 'text')} not decided on yet")
    if rewrites.rejected:
        reasons.append(f"{_counted(rewrites.rejected, 'text')} turned down")
    if contrasts is not None and (left_out := contrasts.left_out) is not None:
        details = (
            (left_out.alone, "anchor", "without an image that differs from it"),
            (left_out.turned_down, "group", "with captions that were turned down"),
            (left_out.undecided, "group", "whose captions are not written or not decided on"),
        )
        reasons += [f"{_counted(count, what)} {why}" for count, what, why in details if count]
    return f"nothing of {dataset!r} can be released: {'; '.join(reasons)}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
