"""Groups of contrastive images: their anchors, active candidates, and attrition of anchors.

Anchors are drawn from the sources with their coarse captions, from which fine captions are refined
and with which they are released.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from loupe.db.decisions import decided_by_people, last_agents
from loupe.db.entities import (
    LIVE,
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    children_of,
    count_entities,
    fetch,
    fetch_parents,
    new_entity,
    parents_of,
)
from loupe.db.store import Store
from loupe.flows.ccd.editing import edit_settings
from loupe.flows.ccd.run import CcdRun, coarse_captions, is_anchor
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_each
from loupe.flows.engine.sampling import SampleSettings, draw_sample
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.schemas.base import digest_of
from loupe.schemas.contrast import ContrastGroup, FoundPicture
from loupe.schemas.proposals import Candidate, CaptionGroup, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import BYTES_OF_PICTURE, Caption, Contrast, Image, Source
from loupe.schemas.video import StageSettings
from loupe.schemas.wording import many

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
        run.add(imported, *drawn)


def _anchors_of(run: CcdRun) -> list[StoredEntity]:
    """Return the anchors of a benchmark, oldest first, whatever was decided on them."""
    return [one for one in run.find(Image) if is_anchor(one)]


def sync_active_candidates(run: CcdRun) -> None:
    """Deactivate candidates that no longer apply, and reactivate those that do again.

    A strategy has at most one active candidate, of a method of the build, and none unless it is
    accepted. The first candidate
    that was not rejected is active, so a found image that is accepted after all replaces the image
    edited in its place. A candidate measured or judged with other settings is inactive, unless
    people decided on it and its image would be the same with the current settings. An image that
    people rejected is not shown again because it was measured again.
    """
    edits = edit_settings(run)
    with run.alone("choose active candidates"):
        active = _active_candidates(run, edits)
        run.sync_active(Candidate, lambda one: one.id in active, LIVE)


def _active_candidates(run: CcdRun, edits: NewEntity | None) -> set[str]:
    candidates = run.find(Candidate)
    made_for = parents_of(run.store, [one.id for one in candidates], Role.MADE_FOR)
    strategies = fetch(run.store, {found[0] for found in made_for.values()})
    rejected = [one.id for one in candidates if one.state == "rejected"]
    refused = {id_ for id_, one in last_agents(run.store, rejected).items() if one.kind == "person"}
    turned_down = set()  # strategies, each with an image that people rejected for it
    for one in candidates:
        if one.id in refused:
            turned_down.add((made_for[one.id][0], _sha256(one)))
    outdated = _outdated(run.store, [one.id for one in candidates], edits)
    active: dict[str, str] = {}  # by strategy
    for one in candidates:
        strategy = made_for[one.id][0]
        is_wanted = strategies[strategy].state == "accepted"
        is_usable = one.state in (*LIVE, "inactive") and one.id not in outdated
        is_usable = is_usable and one.record(Candidate).origin.method in run.build.methods
        if is_wanted and is_usable and (strategy, _sha256(one)) not in turned_down:
            active.setdefault(strategy, one.id)
    return set(active.values())


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


def form_groups(run: CcdRun, scope: Scope = EVERYTHING, author: str | None = None) -> None:
    """Make an image of every accepted candidate, and group each anchor with its images.

    With an `author` of captions, the contrastive caption of its strategy is that of the image.
    """
    with run.alone("form groups"):
        run.add(_make_images(run, scope, author), _form_groups(run))


def _make_images(run: CcdRun, scope: Scope, author: str | None) -> StageReport:
    """Make an image of every accepted candidate; an image is active while its candidate is."""
    accepted = run.find(Candidate, "accepted")
    anchors = fetch(run.store, {_anchor_id(one) for one in accepted})
    images = _images(run, accepted, anchors, scope)
    judges = last_agents(run.store, [one.id for one in accepted])
    configuration = scope.configuration({"dataset": run.dataset})
    stage = Stage(_MAKE, VERSION, run.dataset, configuration, label="make contrastive images")

    def made(number: int, candidate: StoredEntity) -> WorkResult:
        """Return an image, accepted by the judge of its candidate."""
        image = images[candidate.id]
        reason = f"as its candidate {candidate.id[:12]} was judged"
        decision = NewDecision(image.id, "accept", judges[candidate.id], reason)
        captions = (_caption(candidate, image, author, scope),) if author else ()
        return WorkResult(number, (image, *captions), (decision,))

    report = run_each(run.context, stage, [(one.seq, one) for one in accepted], made)
    if scope.links:
        return report  # the pipeline knows which of its images count
    standing = {one.id for one in accepted if anchors[_anchor_id(one)].state in LIVE}
    contrasts = [one.id for one in run.find(Image) if not is_anchor(one)]
    made_of = parents_of(run.store, contrasts, Role.ACCEPTED_FROM)

    def is_active(image: StoredEntity) -> bool:
        return image.id not in made_of or made_of[image.id][0] in standing

    run.sync_active(Image, is_active, LIVE)
    return report


def _form_groups(run: CcdRun) -> StageReport:
    """Group each anchor with its active contrastive images; deactivate other groups.

    An anchor without captions, or with an undecided strategy or candidate, has no group. An anchor
    without contrastive images has a group of its own if lone anchors are kept. Images are ordered
    by id because the order of creation depends on which runs shared the work.
    """
    undecided = _undecided_anchors(run)
    members: dict[str, list[str]] = defaultdict(list)
    for image in run.find(Image, *LIVE):
        if contrast := image.record(Image).contrast:
            members[contrast.anchor_id].append(image.id)
    anchors = [one.id for one in _anchors_of(run) if one.state in LIVE and one.id not in undecided]
    coarse = coarse_captions(run.store, anchors)
    groups: list[NewEntity] = []
    for anchor in anchors:
        images = sorted(members[anchor])
        if coarse[anchor] and (images or run.build.keep_lone_anchors):
            record = ContrastGroup(anchor_id=anchor, image_ids=tuple(images))
            parents = [(Role.MEMBER, member) for member in (anchor, *images)]
            groups.append(run.create(record, parents, group=anchor))
    stage = Stage(_FORM, VERSION, run.dataset, {"dataset": run.dataset}, label="form groups")
    # numbers are equal for equal groups only
    numbered = [(int(digest_of(group.payload)[:15], 16), group) for group in groups]
    report = run_each(run.context, stage, numbered, lambda number, one: WorkResult(number, (one,)))
    current = {group.id for group in groups}
    run.sync_active(ContrastGroup, lambda one: one.id in current, LIVE)
    return report


def _undecided_anchors(run: CcdRun) -> set[str | None]:
    """Return the anchors that may still get an image.

    A strategy or a candidate is proposed, or was accepted after this run had read it.
    """
    undecided: list[StoredEntity] = []
    for kind, role in ((Strategy, Role.ORDERED_BY), (Candidate, Role.ACCEPTED_FROM)):
        undecided += run.find(kind, "proposed")
        accepted = run.find(kind, "accepted")
        followed = children_of(run.store, [one.id for one in accepted], role)
        undecided += (one for one in accepted if one.id not in followed)
    return {one.group for one in undecided}


def _images(
    run: CcdRun,
    candidates: Sequence[StoredEntity],
    anchors: Mapping[str, StoredEntity],
    scope: Scope,
) -> dict[str, NewEntity]:
    """Return candidates as images of the benchmark by id, in the groups of their anchors.

    An edited image has the source and the terms of its anchor; a found image has its own.
    """
    copied = parents_of(run.store, anchors, Role.SAMPLED_FROM)
    imported = parents_of(run.store, {found[0] for found in copied.values()}, Role.IMPORTED_FROM)
    found_as = fetch_parents(run.store, [one.id for one in candidates], Role.FOUND_AS)
    pictures = [found[0].id for found in found_as.values()]
    services = fetch_parents(run.store, pictures, Role.IMPORTED_FROM)
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
            source_sha256=source_sha256,
            attribution=attribution,
            contrast=Contrast(
                anchor_id=anchor.id,
                difference=record.difference,
                detail=record.detail,
                plan=record.plan,
                method=record.origin.method,
            ),
            **record.image.model_dump(include=BYTES_OF_PICTURE),
        )
        parents = [
            (Role.CONTRAST_OF, anchor.id),
            (Role.ACCEPTED_FROM, candidate.id),
            (Role.IMPORTED_FROM, source_id),
            *scope.links,
        ]
        images[candidate.id] = run.create(image, parents, split=anchor.split, group=anchor.id)
    return images


def _caption(candidate: StoredEntity, image: NewEntity, author: str, scope: Scope) -> NewEntity:
    """Return the contrastive caption of a candidate as that of its image."""
    record = candidate.record(Candidate)
    text = record.contrastive_caption
    return new_entity(
        Caption(source=record.source, text=text, position=0, author=author),
        candidate.dataset,
        parents=[(Role.DESCRIBES, image.id), *scope.links],
        split=image.split,
        group=image.id,
    )


def _anchor_id(candidate: StoredEntity) -> str:
    anchor = candidate.record(Candidate).anchor.image_id
    assert anchor is not None  # noqa: S101 - candidates are made with it
    return anchor


def say_attrition(run: CcdRun) -> None:
    """Report how many of the active anchors were lost at each step."""
    grouped = {one.group for one in run.find(ContrastGroup, *LIVE)}  # with lone anchors
    past = {
        "without a strategy": {one.group for one in run.find(Strategy, "accepted")} | grouped,
        "without a contrastive image": grouped,
        "without captions": {one.group for one in run.find(CaptionGroup, "accepted")},
    }
    left: set[str | None] = {one.id for one in _anchors_of(run) if one.state in LIVE}
    count, lost = len(left), []
    for step, anchors in past.items():
        if number := len(left - anchors):
            lost.append(f"{number:,} {step}")
        left &= anchors
    sentence = f"{len(left):,} of {many(count, 'anchor')} have a group with captions"
    run.say(f"{sentence}; left out: {', '.join(lost)}" if lost else sentence)
