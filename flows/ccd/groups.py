"""Groups of contrastive images: their anchors, active candidates, and attrition of anchors.

Anchors are drawn from the sources with their coarse captions, from which fine captions are refined
and with which they are released.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from db.decisions import decided_by_people, last_agents
from db.entities import (
    LIVE,
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    children_of,
    count_entities,
    fetch,
    fetch_parents,
    find,
    new_entity,
    parents_of,
)
from db.store import Store
from flows.ccd.run import CcdRun, coarse_captions, is_anchor
from flows.engine.context import sync_active
from flows.engine.importing import import_source
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_each
from flows.engine.sampling import SampleSettings, draw_sample
from schemas.base import digest_of
from schemas.contrast import ContrastGroup, FoundPicture
from schemas.proposals import Candidate, CaptionGroup, Strategy
from schemas.provenance import Role
from schemas.records import Contrast, Image, Source
from schemas.video import StageSettings

_MOST_CAPTIONS = 5
"""The most captions taken of an anchor: CCD has five, COCO sometimes has more."""


def take_anchors(run: CcdRun) -> None:
    """Import the sources, and copy their drawn images into the dataset as anchors.

    Raises:
        ConfigurationError: a source has no usable image, or the dataset holds another draw.
    """
    for spec in run.build.sources:
        source, imported = import_source(run.context, spec)
        every = count_entities(run.store, spec.name, Image.kind)
        wanted = spec.identities or run.build.anchors
        if wanted is not None and every < wanted:
            run.say(f"source {spec.name} has {every:,} images, fewer than {wanted:,}")
        settings = SampleSettings(
            identities=wanted or max(every, 1),
            images_per_identity=spec.images_per_identity,
            seed=run.build.seed,
        )
        drawn = draw_sample(run.context, run.dataset, spec, source, settings, coarse=_MOST_CAPTIONS)
        run.add(imported, drawn)


def _anchors_of(store: Store, dataset: str) -> list[StoredEntity]:
    """Return the anchors of a benchmark, oldest first, whatever was decided on them."""
    return [one for one in find(store, dataset, Image.kind) if is_anchor(one)]


def sync_active_candidates(run: CcdRun, edits: NewEntity | None) -> None:
    """Deactivate candidates that no longer apply, and reactivate those that do again.

    A strategy has at most one active candidate, and none unless it is accepted. The first candidate
    that was not rejected is active, so a found image that is accepted after all replaces the image
    edited in its place. A candidate measured or judged with other settings is inactive, unless
    people decided on it and its image would be the same with the current settings. An image that
    people rejected is not shown again because it was measured again.

    `edits` are the current settings (`edit_settings`).
    """
    with run.alone("choose active candidates"):
        active = _active_candidates(run.store, run.dataset, edits)
        sync_active(run.context, run.dataset, Candidate.kind, lambda one: one.id in active, LIVE)


def _active_candidates(store: Store, dataset: str, edits: NewEntity | None) -> set[str]:
    candidates = {one.id: one for one in find(store, dataset, Candidate.kind)}
    made_for = {
        id_: found[0] for id_, found in parents_of(store, candidates, Role.MADE_FOR).items()
    }
    strategies = fetch(store, set(made_for.values()))
    of_strategy: dict[str, list[StoredEntity]] = defaultdict(list)
    for one in sorted(candidates.values(), key=lambda one: one.seq):
        of_strategy[made_for[one.id]].append(one)
    rejected = [one.id for one in candidates.values() if one.state == "rejected"]
    refused = {id_ for id_, one in last_agents(store, rejected).items() if one.kind == "person"}
    outdated = _outdated(store, list(candidates), edits)
    standing: set[str] = set()
    for strategy, made in of_strategy.items():
        if strategies[strategy].state == "accepted":
            turned_down = {_sha256(one) for one in made if one.id in refused}
            open_ = (
                one.id
                for one in made
                if one.state in (*LIVE, "inactive")
                and one.id not in outdated
                and _sha256(one) not in turned_down
            )
            standing.update(list(open_)[:1])
    return standing


def _outdated(store: Store, candidates: Sequence[str], edits: NewEntity | None) -> set[str]:
    """Return candidates that would not be made like this with the current settings of edits.

    `edits` is None if they are not known yet, so that nothing was made with them.
    """
    with store.read() as connection:
        by_people = decided_by_people(connection, candidates)
    outdated: set[str] = set()
    written = fetch_parents(store, candidates, Role.WRITTEN_WITH)
    for candidate, (settings, *_) in written.items():
        if edits is not None and edits.id == settings.id:
            continue
        if edits is not None and candidate in by_people:
            now = StageSettings.model_validate_json(edits.payload)
            if now.values["picture"] == settings.record(StageSettings).values["picture"]:
                continue  # only measured and judged with other settings
        outdated.add(candidate)
    return outdated


def _sha256(candidate: StoredEntity) -> str:
    return candidate.record(Candidate).image.sha256


# Make images of the accepted candidates, and group them with their anchors.

VERSION = "1"
_MAKE, _FORM = "make_contrastive_images", "form_groups"


def form_groups(run: CcdRun) -> None:
    """Make an image of every accepted candidate, and group each anchor with its images."""
    with run.alone("form groups"):
        run.add(_make_images(run), _form_groups(run))


def _make_images(run: CcdRun) -> StageReport:
    """Make an image of every accepted candidate; an image is active while its candidate is."""
    context, store, dataset = run.context, run.store, run.dataset
    accepted = list(find(store, dataset, Candidate.kind, states=("accepted",)))
    anchors = fetch(store, {_anchor_id(one) for one in accepted})
    images = _images(store, accepted, anchors)
    judges = last_agents(store, [one.id for one in accepted])
    stage = Stage(_MAKE, VERSION, dataset, {"dataset": dataset}, label="make contrastive images")

    def made(number: int, candidate: StoredEntity) -> WorkResult:
        """Return an image, accepted by the judge of its candidate."""
        image = images[candidate.id]
        reason = f"as its candidate {candidate.id[:12]} was judged"
        decision = NewDecision(image.id, "accept", judges[candidate.id], reason)
        return WorkResult(number, (image,), (decision,))

    report = run_each(context, stage, [(one.seq, one) for one in accepted], made)
    standing = {one.id for one in accepted if anchors[_anchor_id(one)].state in LIVE}
    contrasts = [one.id for one in find(store, dataset, Image.kind) if not is_anchor(one)]
    made_of = parents_of(store, contrasts, Role.ACCEPTED_FROM)
    sync_active(
        context,
        dataset,
        Image.kind,
        lambda image: image.id not in made_of or made_of[image.id][0] in standing,
        LIVE,
    )
    return report


def _form_groups(run: CcdRun) -> StageReport:
    """Group each anchor with its active contrastive images; deactivate other groups.

    An anchor with an undecided strategy or candidate has no group yet. An anchor without
    contrastive images has a group of its own if lone anchors are kept and it has captions.
    """
    context, store, dataset = run.context, run.store, run.dataset
    records = list(_groups(store, dataset))
    coarse = coarse_captions(store, [one.anchor_id for one in records if not one.image_ids])
    groups = [
        new_entity(
            one,
            dataset,
            parents=[(Role.MEMBER, member) for member in (one.anchor_id, *one.image_ids)],
            group=one.anchor_id,
        )
        for one in records
        if one.image_ids or (run.build.keep_lone_anchors and coarse[one.anchor_id])
    ]
    stage = Stage(_FORM, VERSION, dataset, {"dataset": dataset}, label="form groups")
    # numbers are equal for equal groups only
    numbered = [(int(digest_of(group.payload)[:15], 16), group) for group in groups]
    report = run_each(context, stage, numbered, lambda number, one: WorkResult(number, (one,)))
    current = {group.id for group in groups}
    sync_active(context, dataset, ContrastGroup.kind, lambda one: one.id in current, LIVE)
    return report


def _groups(store: Store, dataset: str) -> Iterator[ContrastGroup]:
    """Return every active anchor without open decisions, with its active contrastive images.

    Images are ordered by id because the order of creation depends on which runs shared the work.
    """
    undecided = _undecided_anchors(store, dataset)
    members: dict[str, list[str]] = defaultdict(list)
    for image in find(store, dataset, Image.kind, states=LIVE):
        if contrast := image.record(Image).contrast:
            members[contrast.anchor_id].append(image.id)
    for anchor in _anchors_of(store, dataset):
        if anchor.state in LIVE and anchor.id not in undecided:
            yield ContrastGroup(anchor_id=anchor.id, image_ids=tuple(sorted(members[anchor.id])))


def _undecided_anchors(store: Store, dataset: str) -> set[str | None]:
    """Return the anchors that may still get an image.

    A strategy or a candidate is proposed, or was accepted after this run had read it.
    """
    undecided: list[StoredEntity] = []
    for kind, role in ((Strategy.kind, Role.ORDERED_BY), (Candidate.kind, Role.ACCEPTED_FROM)):
        undecided += find(store, dataset, kind, states=("proposed",))
        accepted = list(find(store, dataset, kind, states=("accepted",)))
        followed = children_of(store, [one.id for one in accepted], role)
        undecided += (one for one in accepted if one.id not in followed)
    return {one.group for one in undecided}


def _images(
    store: Store, candidates: Sequence[StoredEntity], anchors: Mapping[str, StoredEntity]
) -> dict[str, NewEntity]:
    """Return candidates as images of the benchmark by id, in the groups of their anchors.

    An edited image has the source and the terms of its anchor; a found image has its own.
    """
    copied = parents_of(store, anchors, Role.SAMPLED_FROM)
    imported = parents_of(store, {found[0] for found in copied.values()}, Role.IMPORTED_FROM)
    found_as = fetch_parents(store, [one.id for one in candidates], Role.FOUND_AS)
    pictures = [found[0].id for found in found_as.values()]
    services = fetch_parents(store, pictures, Role.IMPORTED_FROM)
    images: dict[str, NewEntity] = {}
    for candidate in candidates:
        anchor = anchors[_anchor_id(candidate)]
        record, beside = candidate.record(Candidate), anchor.record(Image)
        source_id, source = imported[copied[anchor.id][0]][0], beside.source
        attribution, source_sha256 = beside.attribution, record.image.sha256
        if found := found_as.get(candidate.id):
            picture = found[0].record(FoundPicture)
            service = services[found[0].id][0]
            source_id, source = service.id, service.record(Source).name
            attribution, source_sha256 = picture.attribution, picture.source_sha256
        name = PurePosixPath(beside.file_path)
        image = Image(
            source=source,
            identity=beside.identity,
            split=beside.split,
            file_path=str(name.with_name(f"{name.stem}-{candidate.id[:8]}")),
            sha256=record.image.sha256,
            source_sha256=source_sha256,
            media_type=record.image.media_type,
            width_px=record.image.width_px,
            height_px=record.image.height_px,
            attribution=attribution,
            contrast=Contrast(
                anchor_id=anchor.id,
                difference=record.difference,
                detail=record.detail,
                plan=record.plan,
                method=record.origin.method,
            ),
        )
        parents = [
            (Role.CONTRAST_OF, anchor.id),
            (Role.ACCEPTED_FROM, candidate.id),
            (Role.IMPORTED_FROM, source_id),
        ]
        images[candidate.id] = new_entity(
            image, candidate.dataset, parents=parents, split=anchor.split, group=anchor.id
        )
    return images


def _anchor_id(candidate: StoredEntity) -> str:
    anchor = candidate.record(Candidate).anchor.image_id
    assert anchor is not None  # noqa: S101 - candidates are made with it
    return anchor


def anchor_attrition(store: Store, dataset: str) -> tuple[int, dict[str, int]]:
    """Count the active anchors, and how many of them were lost at each step."""
    anchors = {one.id for one in _anchors_of(store, dataset) if one.state in LIVE}
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


def say_attrition(run: CcdRun) -> None:
    """Report the attrition."""
    count, lost = anchor_attrition(run.store, run.dataset)
    whole = count - sum(lost.values())
    at = ", ".join(f"{number:,} {step}" for step, number in lost.items() if number)
    sentence = f"{whole:,} of {count:,} anchors came to a group with captions"
    run.say(f"{sentence}; left out: {at}" if at else sentence)
