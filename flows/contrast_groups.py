"""Makes images of the candidates that were accepted, and groups of them with their anchors."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from db.agents import AgentRef
from db.decisions import NewDecision, last_agents
from db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    fetch,
    find,
    new_entity,
    parents_of,
)
from db.store import Store
from db.work import WorkResult
from flows.anchors import anchors_of, is_anchor
from flows.context import RunContext
from flows.hit_downloads import IMPORTED_FROM
from flows.image_choice import FOUND_AS
from flows.report import StageReport
from flows.retiring import keep_current
from flows.runner import Stage, run_stream
from flows.task_images import SAMPLED_FROM
from schemas.base import digest_of
from schemas.contrast_records import ContrastGroup, FoundPicture
from schemas.proposals import Candidate
from schemas.records import Contrast, Image, Source

CONTRAST_OF = "contrast_of"
"""The role of the anchor of a contrastive image."""
ACCEPTED_FROM = "accepted_from"
"""The role of the candidate that a contrastive image is."""
MEMBER = "member"
"""The role of the images of a group."""

REFINED_FOR = "refined_for"
"""The role of the group of images that captions were refined for."""

VERSION = "1"
_MAKE, _FORM = "make_contrastive_images", "form_groups"


def make_images(context: RunContext, dataset: str) -> StageReport:
    """Makes an image of every candidate that was accepted; takes back those that no longer are."""
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
    made_of = parents_of(store, made, ACCEPTED_FROM)
    keep_current(
        context,
        dataset,
        Image.kind,
        lambda image: image.id not in made_of or made_of[image.id][0] in standing,
        LIVE,
    )
    return report


def form_groups(context: RunContext, dataset: str) -> StageReport:
    """Groups each anchor with its live contrastive images; takes back groups that are none now."""
    store = context.store
    groups = list(_groups(store, dataset))
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
    keep_current(context, dataset, ContrastGroup.kind, lambda one: one.id in current, LIVE)
    return report


def _groups(store: Store, dataset: str) -> Iterator[ContrastGroup]:
    """Every live anchor that has live contrastive images, with these.

    Images are ordered by their ids: when each was made depends on which runs shared the work.
    """
    members: dict[str, list[str]] = defaultdict(list)
    for image in find(store, dataset, Image.kind, states=LIVE):
        if contrast := image.record(Image).contrast:
            members[contrast.anchor_id].append(image.id)
    for anchor in anchors_of(store, dataset):
        if anchor.state in LIVE and members[anchor.id]:
            yield ContrastGroup(anchor_id=anchor.id, image_ids=tuple(sorted(members[anchor.id])))


def _group_entity(dataset: str, group: ContrastGroup) -> NewEntity:
    return new_entity(
        group,
        dataset,
        parents=[(MEMBER, one) for one in (group.anchor_id, *group.image_ids)],
        group=group.anchor_id,
    )


def _number(group: ContrastGroup) -> int:
    """A number for the work on a group: equal for equal groups alone."""
    return int(digest_of(group.payload())[:15], 16)


def _made(number: int, candidate: StoredEntity, image: NewEntity, judge: AgentRef) -> WorkResult:
    """An image, accepted by whoever accepted its candidate."""
    reason = f"as its candidate {candidate.id[:12]} was judged"
    return WorkResult(number, (image,), (NewDecision(image.id, "accept", judge, reason),))


class _Origins:
    """Where candidates are from: their anchors, what was found, and the sources of both."""

    def __init__(self, store: Store, candidates: Sequence[StoredEntity]) -> None:
        self._anchors = fetch(store, {_anchor_id(one) for one in candidates})
        self._sources = sources_of(store, list(self._anchors))
        self._found = parents_of(store, [one.id for one in candidates], FOUND_AS)
        pictures = [found[0] for found in self._found.values()]
        self._pictures = fetch(store, pictures)
        services = parents_of(store, pictures, IMPORTED_FROM)
        stored = fetch(store, {found[0] for found in services.values()})
        self._services = {id_: stored[found[0]] for id_, found in services.items()}

    def anchor(self, candidate: StoredEntity) -> StoredEntity:
        """The anchor of a candidate."""
        return self._anchors[_anchor_id(candidate)]

    def image(self, candidate: StoredEntity) -> NewEntity:
        """A candidate as an image of the benchmark, beside its anchor.

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
            (CONTRAST_OF, anchor.id),
            (ACCEPTED_FROM, candidate.id),
            (IMPORTED_FROM, source_id),
        ]
        return new_entity(
            image, candidate.dataset, parents=parents, split=anchor.split, group=anchor.id
        )


def sources_of(store: Store, image_ids: Sequence[str]) -> dict[str, str]:
    """The source of each image that was copied out of one, by their ids."""
    copied = parents_of(store, image_ids, SAMPLED_FROM)
    originals = {found[0] for found in copied.values()}
    sources = parents_of(store, originals, IMPORTED_FROM)
    return {image: sources[found[0]][0] for image, found in copied.items()}


def _anchor_id(candidate: StoredEntity) -> str:
    anchor = candidate.record(Candidate).anchor.image_id
    assert anchor is not None  # noqa: S101 - candidates are made with it
    return anchor
