"""`build-ccd`: strategies, images and captions, with a review of each step (CCD)."""

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from functools import partial

from loupe.db.decisions import decide, last_reasons
from loupe.db.entities import LIVE, NewDecision, StoredEntity, find, parents_of
from loupe.db.store import Store
from loupe.flows.caption_judging import judge_captions
from loupe.flows.ccd.caption_checks import apply_group_decisions
from loupe.flows.ccd.groups import say_attrition, take_anchors
from loupe.flows.ccd.image_requests import served_by, strategies_to_serve, sync_active_requests
from loupe.flows.ccd.refining import refine_captions
from loupe.flows.ccd.run import CcdRun, Clock, DownloaderMaker, search_of, utc_now
from loupe.flows.ccd.steps import edit, group, propose_contrasts, search
from loupe.flows.ccd.strategies import FURTHER, propose_instead
from loupe.flows.engine.image_checks import image_checks
from loupe.flows.engine.pipeline import Gate, Loop, PipelineSpec, Release, Step, demonstration
from loupe.flows.engine.quotas import count_accepted_captions
from loupe.flows.engine.software import software
from loupe.release.card.model_use import is_drawn
from loupe.schemas.build import CcdBuild
from loupe.schemas.profile import BuiltinContraster, Profile
from loupe.schemas.proposals import Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.release import QuotaStatistics
from loupe.schemas.taxonomy import Tier
from loupe.services.diagnosis import Finding, ModelSpec, lacking, plugin_filters
from loupe.sources.web import open_downloader


def ccd_pipeline(
    make_downloader: DownloaderMaker = open_downloader, clock: Clock = utc_now
) -> PipelineSpec[CcdBuild, CcdRun]:
    """Propose strategies, obtain an image for each, and write fine captions for whole groups.

    People review three times: whether strategies are right, whether images differ in the one
    detail, and whether the captions of whole groups are right. A strategy whose image people reject
    is tried again with the next method.

    An edit depends only on its strategy, and a group only on what is made of its anchor. So without
    a search, both go on while other strategies and images wait for review. Which image a search
    returns depends on the images of other strategies, so it needs all decisions.
    """
    return PipelineSpec(
        form=CcdBuild,
        demonstrate=demonstration("build-ccd"),
        models=_models,
        checks=_checks,
        start=partial(CcdRun, make_downloader=make_downloader, clock=clock),
        version=lambda build: build.version,
        name="build-ccd",
        quotas=contrast_quotas,
        steps=(
            Step(take_anchors),
            *image_checks(),
            Loop(
                _until_complete,
                (
                    propose_contrasts(),
                    Gate("strategies", "strategies_gate"),
                    Loop(
                        _each_method,
                        (
                            *(search(), edit()),
                            Gate("candidates", "candidates_gate", per_item=_edits_alone),
                        ),
                        per_item=_edits_alone,
                    ),
                ),
            ),
            group(captions=False),
            Step(refine_captions, per_item=_edits_alone),
            Step(partial(judge_captions, gate="groups"), per_item=_edits_alone),
            Gate("groups", "groups_gate", apply=apply_group_decisions, per_item=_edits_alone),
            Step(say_attrition),
            Release(lambda run: run.build.version),
        ),
    )


def _models(build: CcdBuild, profile: Profile) -> list[ModelSpec]:
    """Return the writers, the embedder, and the searches and editors of the build."""
    settings = profile.contrast
    found = search_of(build.search_folder, profile) if "search" in build.methods else None
    return [
        *(settings.strategist, settings.refiner, settings.embedder),
        *([profile.caption_judge.model] if profile.caption_judge is not None else []),
        *([found] if found is not None else []),
        *([settings.editor] if "edit" in build.methods else []),
        *plugin_filters(profile),
    ]


def _checks(build: CcdBuild, profile: Profile) -> Iterator[Finding]:
    """Check whether the writers know photographs and the second language."""
    writers = (profile.contrast.strategist, profile.contrast.refiner)
    if not any(isinstance(one, BuiltinContraster) for one in writers):
        return
    remedy = "choose a profile with a vision model, such as --profile hosted"
    for source in build.sources:
        if not is_drawn(source):
            detail = "the built-in models know only drawn stills, not photographs"
            yield lacking(f"source {source.name}", detail, remedy)
    if build.second_language is not None:
        detail = f"the built-in models write English only, not {build.second_language!r}"
        yield lacking("second_language", detail, remedy)


def _edits_alone(run: CcdRun) -> bool:
    return run.edits_alone


def _until_complete(run: CcdRun) -> Generator[None]:
    """Repeat until each strategy has its image, or another one has, or the rounds are over."""
    is_open = True
    while is_open:
        yield
        is_open = not run.report.waiting and complete(run)


def _each_method(run: CcdRun) -> Generator[None]:
    """Run a pass for each method of the build, until people have to decide."""
    for method in run.build.methods:
        if method == "search" and run.search is None:
            run.say(
                "nothing is searched: the profile names no service ([contrast.search]) and the "
                "build no folder (search_folder)"
            )
            continue
        run.method = method
        yield
        if run.report.waiting and not run.edits_alone:
            break
    else:
        with run.alone("request images"):
            sync_active_requests(run.context, run.dataset)
    if run.stopped is not None:
        raise run.stopped


def contrast_quotas(
    store: Store, dataset: str, tier: Tier | None = None
) -> Iterator[QuotaStatistics]:
    """Yield the anchors, and the images of each type of difference; a strategy asks for an image.

    Images that are left out of a release, because they have no captions, do not count.
    """
    if tier is not None:
        return
    images = [one for one in find(store, dataset, Image.kind) if one.state in LIVE]
    strategies = list(find(store, dataset, Strategy.kind, states=("accepted",)))
    anchors = {one.id for one in images if one.record(Image).contrast is None}
    strategies = [one for one in strategies if one.group in anchors]
    if not strategies:
        return
    contrastive = [one for one in images if one.id not in anchors]
    counts = count_accepted_captions(store, [one.id for one in contrastive])
    found = [one for one in contrastive if counts[one.id]]
    with_images = {one.group for one in found}
    yield QuotaStatistics(
        what="anchors with contrastive images", asked=len(anchors), reached=len(with_images)
    )
    wanted = Counter(one.record(Strategy).difference.value for one in strategies)
    reached = Counter[str]()
    for one in found:
        contrast = one.record(Image).contrast
        if contrast is not None:
            reached[contrast.difference.value] += 1
    for difference, asked in sorted(wanted.items()):
        what = f"contrastive images of type {difference}"
        yield QuotaStatistics(what=what, asked=asked, reached=reached[difference])


_NO_IMAGE = "no image of it was accepted; it was proposed in the place of another"
_REPLACED = "no image of it was accepted, and one of another strategy took its place"


def complete(run: CcdRun) -> bool:
    """Ask for strategies in the place of those without an image; return whether any was asked for.

    An anchor is asked about in at most `further_rounds` rounds. A strategy whose place was taken is
    rejected; what still has no image is missing in the release.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    if not run.build.further_rounds:
        return False
    # otherwise parallel runs could reject a strategy too many
    with run.alone("complete"):
        return propose_instead(run, _lacking(run))


def _lacking(run: CcdRun) -> dict[str, int]:
    """Reject strategies that were replaced; return how many are without image, by anchor."""
    strategies = strategies_to_serve(run.store, run.dataset)
    served = served_by(run.store, [one.id for one in strategies], Role.MADE_FOR, LIVE)
    further = _further(run)
    spare = Counter[str]()
    spare.subtract(_replaced(run))
    without: dict[str, list[StoredEntity]] = defaultdict(list)
    decisions: list[NewDecision] = []
    for one in strategies:
        if one.id in served:
            spare[str(one.group)] += one.id in further
        elif one.id in further:
            decisions.append(NewDecision(one.id, "reject", software(), _NO_IMAGE))
        else:
            without[str(one.group)].append(one)
    lacking: dict[str, int] = {}
    for anchor, many in without.items():
        taken = many[: max(0, spare[anchor])]
        decisions += [NewDecision(one.id, "reject", software(), _REPLACED) for one in taken]
        if len(many) > len(taken):
            lacking[anchor] = len(many) - len(taken)
    decide(run.store, decisions)
    return lacking


def _further(run: CcdRun) -> set[str]:
    """Return the strategies that were proposed in the place of others."""
    settings = {one.id for one in run.stage_settings(FURTHER)}
    drafted = parents_of(run.store, [one.id for one in run.find(Strategy)], Role.DRAFTED_AS)
    written = parents_of(run.store, {one[0] for one in drafted.values()}, Role.WRITTEN_WITH)
    return {id_ for id_, (draft, *_) in drafted.items() if not settings.isdisjoint(written[draft])}


def _replaced(run: CcdRun) -> Counter[str]:
    """Return how many strategies of each anchor were replaced."""
    rejected = run.find(Strategy, "rejected")
    reasons = last_reasons(run.store, [one.id for one in rejected])
    return Counter(str(one.group) for one in rejected if reasons.get(one.id) == _REPLACED)
