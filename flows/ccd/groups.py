"""Groups of contrastive images with their anchors: active candidates, anchors that were lost."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from db.decisions import NewDecision, decided_by_people, last_agents
from db.entities import (
    LIVE,
    AgentRef,
    NewEntity,
    StoredEntity,
    children_of,
    fetch,
    find,
    new_entity,
    parents_of,
)
from db.store import Store
from db.work import WorkResult
from flows.ccd.anchors import anchors_of, coarse_captions, is_anchor
from flows.engine.activation import sync_active, sync_active_edits
from flows.engine.context import RunContext
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_stream
from schemas.base import digest_of
from schemas.contrast import ContrastGroup, FoundPicture
from schemas.proposals import Candidate, CaptionGroup, Strategy
from schemas.provenance import Role
from schemas.records import Contrast, Image, Source
from schemas.video import StageSettings


def sync_active_candidates(
    context: RunContext, dataset: str, in_force: Mapping[str, NewEntity | None]
) -> None:
    """Makes candidates inactive that no longer apply, and active that do again.

    A strategy has at most one active candidate, and none unless it is accepted: the first that was
    not rejected, so that accepting a found image after all replaces the one edited in its place. A
    candidate that was measured or judged with other settings is inactive, unless people decided on
    it and its picture would be made the same now. A picture that people rejected is not shown again
    because it was measured again.

    Args:
        context: the run.
        dataset: the benchmark.
        in_force: the settings of today by their stage; None where today's are not known yet, so
            that nothing was made with them. Of other stages every result is as good as another.
    """
    store = context.store
    candidates = {one.id: one for one in find(store, dataset, Candidate.kind)}
    made_for = {
        id_: found[0] for id_, found in parents_of(store, candidates, Role.MADE_FOR).items()
    }
    strategies = fetch(store, set(made_for.values()))
    of_strategy: dict[str, list[StoredEntity]] = defaultdict(list)
    for one in sorted(candidates.values(), key=lambda one: one.seq):
        of_strategy[made_for[one.id]].append(one)
    judged = _Judged(context, candidates.values(), in_force)
    standing: set[str] = set()
    for strategy, made in of_strategy.items():
        if strategies[strategy].state == "accepted":
            refused = {_sha256(one) for one in made if judged.is_refused(one)}
            open_ = (
                one.id for one in made if judged.may_stand(one) and _sha256(one) not in refused
            )
            standing.update(list(open_)[:1])
    sync_active(context, dataset, Candidate.kind, lambda one: one.id in standing, LIVE)


class _Judged:
    """What people and settings say of candidates."""

    def __init__(
        self,
        context: RunContext,
        candidates: Iterable[StoredEntity],
        in_force: Mapping[str, NewEntity | None],
    ) -> None:
        store = context.store
        every = list(candidates)
        ids = [one.id for one in every]
        rejected = [one.id for one in every if one.state == "rejected"]
        self._judges = last_agents(store, rejected)
        self._by_people = decided_by_people(store, ids)
        written = parents_of(store, ids, Role.WRITTEN_WITH)
        settings = fetch(store, {found[0] for found in written.values()})
        self._settings = {id_: settings[found[0]] for id_, found in written.items()}
        self._in_force = in_force

    def is_refused(self, candidate: StoredEntity) -> bool:
        """Whether people turned the candidate down."""
        judge = self._judges.get(candidate.id)
        return judge is not None and judge.kind == "person"

    def may_stand(self, candidate: StoredEntity) -> bool:
        """Whether the candidate was not rejected, and is as it would be made now."""
        return candidate.state in (*LIVE, "inactive") and self._is_of_today(candidate)

    def _is_of_today(self, candidate: StoredEntity) -> bool:
        settings = self._settings.get(candidate.id)
        if settings is None:
            return True
        made_with = settings.record(StageSettings)
        if made_with.stage not in self._in_force:
            return True
        today = self._in_force[made_with.stage]
        if today is None or today.id == settings.id:
            return today is not None
        record = StageSettings.model_validate_json(today.payload)
        return candidate.id in self._by_people and _picture(made_with) == _picture(record)


def _picture(settings: StageSettings) -> Any:
    """What determines a picture, before it is measured and judged."""
    return settings.values["picture"]


def _sha256(candidate: StoredEntity) -> str:
    return candidate.record(Candidate).image.sha256


# Makes images of the candidates that were accepted, and groups of them with their anchors.


VERSION = "1"
_MAKE, _FORM = "make_contrastive_images", "form_groups"


def make_images(context: RunContext, dataset: str) -> StageReport:
    """Makes an image of every accepted candidate; an image is active while its candidate is."""
    store = context.store
    accepted = list(find(store, dataset, Candidate.kind, states=("accepted",)))
    origins = _Origins(store, accepted)
    judges = last_agents(store, [one.id for one in accepted])
    stage = Stage(
        name=_MAKE,
        version=VERSION,
        dataset=dataset,
        configuration={"dataset": dataset},
        label="make contrastive images",
    )

    def work(items: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        return [_made(number, one, origins.image(one), judges[one.id]) for number, one in items]

    report = run_stream(context, stage, [(one.seq, one) for one in accepted], work, len(accepted))
    standing = {one.id for one in accepted if origins.anchor(one).state in LIVE}
    made = [one.id for one in find(store, dataset, Image.kind) if not is_anchor(one)]
    made_of = parents_of(store, made, Role.ACCEPTED_FROM)
    sync_active(
        context,
        dataset,
        Image.kind,
        lambda image: image.id not in made_of or made_of[image.id][0] in standing,
        LIVE,
    )
    return report


def form_groups(context: RunContext, dataset: str, *, keep_lone_anchors: bool) -> StageReport:
    """Groups each anchor with its live contrastive images; other groups become inactive.

    An anchor of which a strategy or a candidate is still undecided has no group yet. One that has
    no contrastive image has a group of its own where lone anchors are kept, if it has captions.
    """
    store = context.store
    groups = list(_groups(store, dataset))
    coarse = coarse_captions(store, [one.anchor_id for one in groups if not one.image_ids])
    groups = [
        one for one in groups if one.image_ids or (keep_lone_anchors and coarse[one.anchor_id])
    ]
    stage = Stage(
        name=_FORM,
        version=VERSION,
        dataset=dataset,
        configuration={"dataset": dataset},
        label="form groups",
    )

    def work(items: Sequence[tuple[int, ContrastGroup]]) -> list[WorkResult]:
        return [WorkResult(number, (_group_entity(dataset, group),)) for number, group in items]

    numbered = [(_number(group), group) for group in groups]
    report = run_stream(context, stage, numbered, work, total=len(numbered))
    current = {_group_entity(dataset, group).id for group in groups}
    sync_active(context, dataset, ContrastGroup.kind, lambda one: one.id in current, LIVE)
    return report


def _groups(store: Store, dataset: str) -> Iterator[ContrastGroup]:
    """Every live anchor of which all is decided, with its live contrastive images.

    Images are ordered by their ids: when each was made depends on which runs shared the work.
    """
    undecided = _undecided_anchors(store, dataset)
    members: dict[str, list[str]] = defaultdict(list)
    for image in find(store, dataset, Image.kind, states=LIVE):
        if contrast := image.record(Image).contrast:
            members[contrast.anchor_id].append(image.id)
    for anchor in anchors_of(store, dataset):
        if anchor.state in LIVE and anchor.id not in undecided:
            yield ContrastGroup(anchor_id=anchor.id, image_ids=tuple(sorted(members[anchor.id])))


def _undecided_anchors(store: Store, dataset: str) -> set[str | None]:
    """The anchors that may still get an image.

    A strategy or a candidate is proposed, or was accepted after this run had looked at it.
    """
    undecided: list[StoredEntity] = []
    for kind, role in ((Strategy.kind, Role.ORDERED_BY), (Candidate.kind, Role.ACCEPTED_FROM)):
        undecided += find(store, dataset, kind, states=("proposed",))
        accepted = list(find(store, dataset, kind, states=("accepted",)))
        followed = children_of(store, [one.id for one in accepted], role)
        undecided += (one for one in accepted if one.id not in followed)
    return {one.group for one in undecided}


def _group_entity(dataset: str, group: ContrastGroup) -> NewEntity:
    return new_entity(
        group,
        dataset,
        parents=[(Role.MEMBER, one) for one in (group.anchor_id, *group.image_ids)],
        group=group.anchor_id,
    )


def _number(group: ContrastGroup) -> int:
    """A number for the work on a group: equal for equal groups alone."""
    return int(digest_of(group.payload())[:15], 16)


def _made(number: int, candidate: StoredEntity, image: NewEntity, judge: AgentRef) -> WorkResult:
    """An image, accepted by the judge of its candidate."""
    reason = f"as its candidate {candidate.id[:12]} was judged"
    return WorkResult(number, (image,), (NewDecision(image.id, "accept", judge, reason),))


class _Origins:
    """Where candidates are from: their anchors, what was found, and the sources of both."""

    def __init__(self, store: Store, candidates: Sequence[StoredEntity]) -> None:
        self._anchors = fetch(store, {_anchor_id(one) for one in candidates})
        self._sources = sources_of(store, list(self._anchors))
        self._found = parents_of(store, [one.id for one in candidates], Role.FOUND_AS)
        pictures = [found[0] for found in self._found.values()]
        self._pictures = fetch(store, pictures)
        services = parents_of(store, pictures, Role.IMPORTED_FROM)
        stored = fetch(store, {found[0] for found in services.values()})
        self._services = {id_: stored[found[0]] for id_, found in services.items()}

    def anchor(self, candidate: StoredEntity) -> StoredEntity:
        """The anchor of a candidate."""
        return self._anchors[_anchor_id(candidate)]

    def image(self, candidate: StoredEntity) -> NewEntity:
        """A candidate as an image of the benchmark, in the group of its anchor.

        What was edited is of its anchor's source and has its terms; what was found has its own.
        """
        anchor = self.anchor(candidate)
        record, beside = candidate.record(Candidate), anchor.record(Image)
        source_id, source, attribution = self._sources[anchor.id], beside.source, beside.attribution
        source_sha256 = record.image.sha256
        if found := self._found.get(candidate.id):
            picture = self._pictures[found[0]].record(FoundPicture)
            service = self._services[found[0]]
            source_id, source = service.id, service.record(Source).name
            attribution, source_sha256 = picture.attribution, picture.source_sha256
        picture_ = record.image
        name = PurePosixPath(beside.file_path)
        image = Image(
            source=source,
            identity=beside.identity,
            split=beside.split,
            file_path=str(name.with_name(f"{name.stem}-{candidate.id[:8]}")),
            sha256=picture_.sha256,
            source_sha256=source_sha256,
            media_type=picture_.media_type,
            width_px=picture_.width_px,
            height_px=picture_.height_px,
            attribution=attribution,
            contrast=Contrast(
                anchor_id=anchor.id,
                difference=record.difference,
                detail=record.detail,
                plan=record.plan,
                way=record.origin.way,
            ),
        )
        parents = [
            (Role.CONTRAST_OF, anchor.id),
            (Role.ACCEPTED_FROM, candidate.id),
            (Role.IMPORTED_FROM, source_id),
        ]
        return new_entity(
            image, candidate.dataset, parents=parents, split=anchor.split, group=anchor.id
        )


def sources_of(store: Store, image_ids: Sequence[str]) -> dict[str, str]:
    """The source of each image that was copied out of one, by their ids."""
    copied = parents_of(store, image_ids, Role.SAMPLED_FROM)
    originals = {found[0] for found in copied.values()}
    sources = parents_of(store, originals, Role.IMPORTED_FROM)
    return {image: sources[found[0]][0] for image, found in copied.items()}


def _anchor_id(candidate: StoredEntity) -> str:
    anchor = candidate.record(Candidate).anchor.image_id
    assert anchor is not None  # noqa: S101 - candidates are made with it
    return anchor


def sync_active_groups(context: RunContext, dataset: str, settings_id: str) -> None:
    """A group of captions is active while its images are a group and its settings are these."""
    store = context.store
    groups = [one.id for one in find(store, dataset, CaptionGroup.kind)]
    refined = parents_of(store, groups, Role.REFINED_FOR)
    written = parents_of(store, groups, Role.WRITTEN_WITH)
    current = {one.id for one in find(store, dataset, ContrastGroup.kind, states=LIVE)}

    def stands(group: str) -> bool | None:
        if group not in refined:
            return None
        return refined[group][0] in current and written[group] == [settings_id]

    sync_active_edits(context, dataset, CaptionGroup.kind, stands)


def anchor_attrition(store: Store, dataset: str) -> tuple[int, dict[str, int]]:
    """How many live anchors there are, and how many of them were lost at each step."""
    anchors = {one.id for one in anchors_of(store, dataset) if one.state in LIVE}
    steps: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "without a strategy": (Strategy.kind, ("accepted",)),
        "without a contrastive image": (ContrastGroup.kind, LIVE),
        "without captions": (CaptionGroup.kind, ("accepted",)),
    }
    grouped = {one.group for one in find(store, dataset, ContrastGroup.kind, states=LIVE)}
    left, lost = set(anchors), {}
    for step, (kind, states) in steps.items():
        past = {one.group for one in find(store, dataset, kind, states=states)}
        if kind == Strategy.kind:
            past |= grouped  # lone anchors that are kept
        lost[step] = len(left - past)
        left &= past
    return len(anchors), lost


def attrition_sentence(store: Store, dataset: str) -> str:
    """The same in a sentence."""
    count, lost = anchor_attrition(store, dataset)
    whole = count - sum(lost.values())
    sentence = f"{whole:,} of {count:,} anchors came to a group with captions"
    at = ", ".join(f"{number:,} {step}" for step, number in lost.items() if number)
    return f"{sentence}; left out: {at}" if at else sentence
