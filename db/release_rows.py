"""The content of a release: images, their captions and the decisions on them, as one snapshot.

The graph below an image::

    image ◄─describes─ caption ◄─rewrite_of─ rewrite ◄─edited_from─ rewrite (a person's)
      │                                         └─prompted_by─► prompt
      └─imported_from─► source   (or by way of `sampled_from`, an image of the source's dataset;
                                  or of `crop_of`, a video)

A caption drafted by a model is also `prompted_by` a prompt; people's captions are not. A caption
that a person made from a draft is `edited_from` it. One that a model rewrote is `revised_from` the
earlier one, and `prompted_by` its own prompt.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, select

from loupe.db.decisions import decided_by_people, folded_states
from loupe.db.entities import (
    LIVE,
    StoredEntity,
    ancestor_ids,
    children_in,
    fetch,
    fetch_parents,
    find_in_groups,
    links,
    pages,
    parents_of,
    rows_in,
    scan,
    select_entities,
)
from loupe.db.releases import StoreVersion
from loupe.db.store import Store, faults_as_errors, reads
from loupe.db.tables import (
    Activation,
    Activity,
    Agent,
    Decision,
    Digest,
    Entity,
    ModelCall,
    Plan,
    Release,
    ReleaseItem,
)
from loupe.schemas.base import canonical_json
from loupe.schemas.errors import IntegrityError
from loupe.schemas.grouping import grouped
from loupe.schemas.proposals import Candidate, Strategy, Tracklet, TrackletFrame
from loupe.schemas.provenance import SOURCE_ROLES, TEXT_ROLES, CallRow, Role
from loupe.schemas.records import Image, Source, TermsCorrection
from loupe.schemas.recos import ConfusionCheck, ConfusionMatch, DiscriminabilityReport
from loupe.schemas.release import DatasetForm, EmbedderPurpose
from loupe.schemas.video import READ_SOURCES, StageSettings, Track, Video

_ROW_KINDS = ("image", "caption", "rewrite")


class DescribedText(NamedTuple):
    """A caption or rewrite of an image, in any state.

    `origin` is the id of the caption that a rewrite rephrases (its own id for a caption).
    `by_person` is True for a person's edit, `reviewed` if a person decided on it. `draft` is the
    text of a model that a person's caption started from. `is_computed` tells whether a step wrote
    it under settings that are stored.
    """

    entity: StoredEntity
    origin: str
    by_person: bool
    reviewed: bool
    model_call: str | None
    prompts: tuple[str, ...]
    draft: StoredEntity | None = None
    is_computed: bool = False


class DescribedImage(NamedTuple):
    """An image with all its captions and rewrites.

    `source_id` is None if the source is not known. `crop` is None unless the image was cut out of a
    video, and `selected` tells whether a person decided on the tracklet that it was selected in.
    """

    image: StoredEntity
    source_id: str | None
    texts: tuple[DescribedText, ...]
    crop: "CropOrigin | None"
    selected: bool = False


class _Node(NamedTuple):
    entity: StoredEntity
    image: str
    origin: str
    model_call: str | None


@contextmanager
def snapshot(store: Store, past: StoreVersion | None = None) -> Iterator[Connection]:
    """Open a read-only connection that sees one state of the database until it is closed.

    That state is the present one, or `past`.

    The present state has a mark (`loupe.db.releases.current_mark`), because the snapshot begins
    while no transaction is writing: PostgreSQL numbers rows before they are visible, so a row
    stored later could have a smaller number. States of the past are identified by such a mark.

    Raises:
        ServiceError: the database does not answer or failed.
    """
    with faults_as_errors(store.engine), store.engine.connect() as connection:
        is_postgres = connection.dialect.name == "postgresql"
        if is_postgres:  # not read-only yet: views are created in it
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin() as transaction:
            try:
                with store.no_writers() if past is None else nullcontext():
                    connection.execute(select(Release.id).limit(1))  # the snapshot begins here
                if past is not None:
                    _time_travel(connection, past)
                if is_postgres:
                    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                yield connection
            finally:
                transaction.rollback()


# An earlier version of the store is read through temporary views with the names of tables, so that
# queries do not change. SQLite looks up temporary names first, PostgreSQL follows `search_path`;
# changing it also makes PostgreSQL plan prepared statements again. Links between entities need no
# view: they are part of an entity's id, are stored with it, and are read by joining `entity`.

_STATES = Table(
    "entity_state_then",
    MetaData(),
    Column("id", Digest, primary_key=True),
    Column("state", String(16), nullable=False),
    prefixes=["TEMPORARY"],
)
"""The states of entities with later decisions or activations; these are few."""
_DECISIONS = "SELECT d.* FROM {tables}.decision AS d WHERE d.id <= {decision} OR ({withdrawn})"
_ACTIVATIONS = "SELECT a.* FROM {tables}.activation AS a WHERE a.id <= {activation}"
_STATE = (
    "coalesce((SELECT s.state FROM entity_state_then AS s WHERE s.id = e.id), e.state) AS state"
)
_ENTITIES = """
    SELECT {columns} FROM {tables}.entity AS e
    WHERE e.seq <= {entity} OR (e.kind = 'terms_correction' AND e.seq <= {correction})
"""
_WITHDRAWN_THEN = """d.verdict = 'withdraw' AND EXISTS (
    SELECT 1 FROM {tables}.withdrawn_entity AS w
    WHERE w.entity_id = d.entity_id AND w.withdrawal_id <= {withdrawal}
)"""


def _time_travel(connection: Connection, past: StoreVersion) -> None:
    """Let `connection` see the version `past` until its transaction is rolled back."""
    decided = select(Decision.entity_id).where(Decision.id > past.mark.decision)
    activated = select(Activation.entity_id).where(Activation.id > past.mark.activation)
    changed = connection.execute(decided.union(activated)).scalars().all()
    names = past.mark._asdict()
    names["tables"] = "main"
    if connection.dialect.name == "postgresql":
        names["tables"] = _schema_of_tables(connection)
        before = connection.exec_driver_sql("SHOW search_path").scalar_one()
        connection.exec_driver_sql(f"SET LOCAL search_path TO pg_temp, {before}")
    if past.corrected:
        names["correction"] = 2**63 - 1
    withdrawn = _WITHDRAWN_THEN if past.then_withdrawn else "d.verdict = 'withdraw'"
    names["withdrawn"] = withdrawn.format_map(names)
    names["columns"] = ", ".join(
        _STATE if column.name == "state" else f"e.{column.name}"
        for column in Entity.__table__.columns
    )

    def create_view(name: str, query: str) -> None:
        connection.exec_driver_sql(f"CREATE TEMPORARY VIEW {name} AS {query.format_map(names)}")

    create_view("decision", _DECISIONS)
    create_view("activation", _ACTIVATIONS)
    _STATES.create(connection, checkfirst=False)
    for page in pages(changed):
        states = folded_states(connection, page).items()
        connection.execute(insert(_STATES), [{"id": id_, "state": state} for id_, state in states])
    create_view("entity", _ENTITIES)


def _schema_of_tables(connection: Connection) -> str:
    """Return the schema of the tables, quoted if necessary."""
    query = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = 'entity'::regclass"
    return str(connection.exec_driver_sql(query).scalar_one())


def live_images(connection: Connection, dataset: str) -> Iterator[StoredEntity]:
    """Iterate over the images of a dataset that are neither rejected nor withdrawn, unordered."""
    query = select_entities().where(
        Entity.dataset == dataset, Entity.kind == "image", Entity.state.in_(LIVE)
    )
    yield from map(StoredEntity._make, scan(connection, query))


def dataset_form(connection: Connection, dataset: str) -> DatasetForm | None:
    """Return what a dataset that was built with the public API says about itself."""
    query = select_entities().where(
        Entity.dataset == dataset, Entity.kind == DatasetForm.kind, Entity.state.in_(LIVE)
    )
    found = [StoredEntity._make(row) for row in scan(connection, query)]
    return found[-1].record(DatasetForm) if found else None


def read_sources(connection: Connection, dataset: str) -> dict[str, str]:
    """Return the ids of the sources that the last run of a pipeline read, by their names.

    An image that is in an annotation file as before stays that of the earlier file in the store.
    """
    query = select_entities().where(
        Entity.dataset == dataset, Entity.kind == StageSettings.kind, Entity.state.in_(LIVE)
    )
    ids: list[str] = []
    for row in scan(connection, query):
        settings = StoredEntity._make(row).record(StageSettings)
        if settings.stage == READ_SOURCES:
            ids = settings.values["sources"]
    return {one.record(Source).name: id_ for id_, one in fetch(connection, ids).items()}


class OwnRecord(NamedTuple):
    """A record of a dataset's own: its model call and prompts, and what it was derived from."""

    entity: StoredEntity
    model_call: str | None
    prompts: tuple[str, ...]
    above: tuple[str, ...]


def own_records(
    connection: Connection, dataset: str, kinds: Sequence[str], images: Sequence[str]
) -> Iterator[OwnRecord]:
    """Return the records of these kinds about images that are neither rejected nor withdrawn."""
    for kind in kinds:
        found = find_in_groups(connection, dataset, kind, images)
        live = [one for one in found if one.state in LIVE]
        ids = [one.id for one in live]
        query = select(Entity.id, Entity.model_call_key)
        calls = dict(rows_in(connection, query, Entity.id, ids))
        prompts = parents_of(connection, ids, Role.PROMPTED_BY)
        above = parents_of(connection, ids, Role.DERIVED_FROM)
        for one in live:
            yield OwnRecord(one, calls[one.id], tuple(prompts[one.id]), tuple(above[one.id]))


def described_images(connection: Connection, ids: Sequence[str]) -> list[DescribedImage]:
    """Return the images with these ids, in this order, with their captions and rewrites."""
    images = fetch(connection, ids)
    sources = _sources_of(connection, ids)
    nodes = _texts_below(connection, ids)
    edited = {link.child for link in links(connection, nodes, (Role.EDITED_FROM,))}
    reviewed = decided_by_people(connection, nodes)
    prompts = parents_of(connection, nodes, Role.PROMPTED_BY)
    settings = parents_of(connection, nodes, Role.WRITTEN_WITH)
    drafts = _drafts_of(connection, edited)
    texts: dict[str, list[DescribedText]] = defaultdict(list)
    for node_id, node in nodes.items():
        by_person = node_id in edited
        texts[node.image].append(
            DescribedText(
                node.entity,
                node.origin,
                by_person,
                by_person or node_id in reviewed,
                node.model_call,
                tuple(prompts[node_id]),
                drafts.get(node_id),
                bool(settings[node_id]),
            )
        )
    crops = _crop_origins(connection, images)
    tracklets = {id_: crop.tracklet_id for id_, crop in crops.items()}
    selected = decided_by_people(connection, set(tracklets.values()))
    return [
        DescribedImage(
            images[id_],
            sources.get(id_),
            tuple(texts[id_]),
            crops.get(id_),
            tracklets.get(id_) in selected,
        )
        for id_ in ids
    ]


def _texts_below(connection: Connection, ids: Sequence[str]) -> dict[str, _Node]:
    """Return captions and rewrites below images, level by level.

    Nothing below a rejected caption or a withdrawn entity is included. Drafts of models are
    included even if they were rejected, as the call was made for the image.
    """
    nodes: dict[str, _Node] = {}
    level = list(ids)
    while level:
        below = []
        for parent_id, model_call, entity in children_in(connection, level, TEXT_ROLES):
            if entity.id in nodes or not _counts(entity, model_call):
                continue
            parent = nodes.get(parent_id)
            image, origin = (parent.image, parent.origin) if parent else (parent_id, entity.id)
            nodes[entity.id] = _Node(entity, image, origin, model_call)
            if not _is_left_out(entity):
                below.append(entity.id)
        level = below
    return nodes


def _counts(entity: StoredEntity, model_call: str | None) -> bool:
    if _is_left_out(entity):
        return model_call is not None
    return entity.state != "withdrawn"


def _is_left_out(entity: StoredEntity) -> bool:
    return entity.kind == "caption" and entity.state in ("rejected", "inactive")


def _sources_of(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the id of the source that each image was imported from."""
    found = ancestor_ids(connection, ids, SOURCE_ROLES, "source")
    return {id_: min(sources) for id_, sources in found.items() if sources}


@reads
def corrections_of(
    connection: Connection, source_ids: Iterable[str]
) -> dict[str, tuple[str, TermsCorrection]]:
    """Return the last correction of each source's terms, if there is one, and its id."""
    newest: dict[str, tuple[int, int]] = {}
    corrections: dict[str, tuple[str, TermsCorrection]] = {}
    for source_id, _, entity in children_in(connection, source_ids, (Role.CORRECTS,)):
        record = entity.record(TermsCorrection)
        place = record.number, entity.seq  # two concurrent runs can store the same number
        if entity.state in LIVE and place > newest.get(source_id, (0, 0)):
            newest[source_id] = place
            corrections[source_id] = entity.id, record
    return corrections


def _drafts_of(connection: Connection, ids: Collection[str]) -> dict[str, StoredEntity]:
    """Return the model's draft of each caption that started from one, withdrawn drafts included."""
    captions = ancestor_ids(connection, ids, (Role.EDITED_FROM,), "caption")
    first = {id_: above[-1] for id_, above in captions.items() if above}
    drafted = parents_of(connection, set(first.values()), Role.PROMPTED_BY)
    drafts = fetch(connection, drafted)
    return {id_: drafts[one] for id_, one in first.items() if one in drafts}


def candidates_of(connection: Connection, ids: Iterable[str]) -> dict[str, StoredEntity]:
    """Return the candidate of each contrastive image among `ids` that was made here."""
    candidates = fetch_parents(connection, ids, Role.ACCEPTED_FROM)
    return {id_: many[-1] for id_, many in candidates.items()}


def released_rows(connection: Connection, release_id: str) -> Iterator[str]:
    """Return the ids of the images and texts in a release."""
    query = (
        select(Entity.id)
        .join(ReleaseItem, ReleaseItem.entity_id == Entity.id)
        .where(ReleaseItem.release_id == release_id, Entity.kind.in_(_ROW_KINDS))
    )
    yield from connection.execute(query).scalars()


def model_calls(connection: Connection, keys: Iterable[str]) -> Iterator[CallRow]:
    """Return the model calls with these keys, unordered."""
    query = select(
        Agent.name,
        Agent.revision,
        ModelCall.parameters,
        ModelCall.tokens_in,
        ModelCall.tokens_out,
        ModelCall.cost,
        ModelCall.currency,
        ModelCall.served,
    ).join(Agent, Agent.id == ModelCall.agent_id)
    for row in rows_in(connection, query, ModelCall.key, keys):
        yield CallRow(*row)


# Origins of crops: the video, the tracklet that they were selected in, and the frame.
#
# The graph above an image that was cut out of a video::
#
# image ─crop_of─► video ─imported_from─► source
#   └─selected_in─► tracklet (─edited_from─► tracklet) ─► filter report ─► track

_TO_TRACKS = (Role.EDITED_FROM, Role.PART_OF, Role.REPORT_OF)


class CropOrigin(NamedTuple):
    """The origin of an image that was cut out of a video.

    `embedding` is the detector's vector of the crop, packed as in `Observation`, and `embedder` is
    the tracker that made it. They are None and "" if no track contains the crop.
    """

    video_id: str
    video: Video
    tracklet_id: str
    frame: TrackletFrame
    embedding: str | None
    embedder: str


def _crop_origins(
    connection: Connection, images: Mapping[str, StoredEntity]
) -> dict[str, CropOrigin]:
    """Return the origin of each image that was cut out of a video, by its id.

    Raises:
        IntegrityError: no tracklet that an image was selected in contains it.
    """
    videos = fetch_parents(connection, images, Role.CROP_OF)
    tracklets = fetch_parents(connection, videos, Role.SELECTED_IN)
    embeddings = _embeddings(connection, {one.id for many in tracklets.values() for one in many})
    found = {}
    for id_, (video, *_) in videos.items():
        image = images[id_].record(Image)
        tracklet_id, frame = _selection(id_, image, video.id, tracklets.get(id_, ()))
        embedding, embedder = embeddings.get(image.sha256, (None, ""))
        record = video.record(Video)
        found[id_] = CropOrigin(video.id, record, tracklet_id, frame, embedding, embedder)
    return found


def _selection(
    image_id: str, image: Image, video_id: str, tracklets: Iterable[StoredEntity]
) -> tuple[str, TrackletFrame]:
    """Return the first of the tracklets that contains an image, and its frame there.

    The frame is identified by the name of the image, `<video>/<track>-<frame>.jpg`, as two frames
    of a still scene can have the same bytes.
    """
    end = PurePosixPath(image.file_path).stem.rpartition("-")[2]
    number = int(end) if end.isdecimal() else None
    for tracklet in tracklets:
        for frame in tracklet.record(Tracklet).frames:
            if (frame.frame, frame.crop.sha256) == (number, image.sha256):
                return tracklet.id, frame
    raise IntegrityError(
        f"image {image_id} ({image.file_path!r}) was cut out of video {video_id}, but no tracklet "
        f"that it was selected in shows its bytes ({image.sha256}) in frame {number}"
    )


def _embeddings(connection: Connection, tracklets: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return (embedding, embedder) of the crops of the tracks behind `tracklets`, by digest."""
    above = ancestor_ids(connection, tracklets, _TO_TRACKS, Track.kind).values()
    tracks = {track for many in above for track in many}
    return {
        seen.crop.sha256: (seen.embedding, track.author)
        for _, stored in sorted(fetch(connection, tracks).items())
        for track in [stored.record(Track)]
        for seen in track.observations
        if seen.embedding
    }


# Origins by embedder: which chose and validated images and captions of a benchmark.
#
# The graph around them::
#
# discriminability_report ─measures─► caption
# discriminability_report ─validated_with─► settings
# confusion_check ─measured─► caption
# confusion_match ─matches─► image similar to an existing one
# candidate without captions ─expanded_with─► settings
# contrastive image ─accepted_from─► candidate (─written_with─► settings, if edited)

_DISCRIMINABILITY = ("k", "eta", "rounds")
_EXPANSION = ("neighbours", "near_duplicates")
_CHOICE = ("first", "floor", "ceiling")
_TO_CANDIDATES = (Role.ACCEPTED_FROM, Role.EDITED_FROM)
_TO_STRATEGIES = (*_TO_CANDIDATES, Role.MADE_FOR)


class EmbedderOrigin(NamedTuple):
    """An embedder (`name@revision`), its purpose, and its settings as canonical JSON."""

    embedder: str
    purpose: EmbedderPurpose
    settings: str


def embedder_origins(connection: Connection, ids: Iterable[str]) -> dict[EmbedderOrigin, int]:
    """Count the images and captions among `ids` that each embedder chose or validated."""
    counted = Counter[EmbedderOrigin]()
    for page in pages(ids):
        counted.update(origin for _, origin in set(_origins(connection, page)))
    return dict(counted)


def _origins(connection: Connection, ids: Sequence[str]) -> Iterator[tuple[str, EmbedderOrigin]]:
    """Return those of the images and captions that an embedder chose or validated, with origins."""
    yield from _validations(connection, ids)
    for id_, stored in _linked_entities(connection, ids, Role.MEASURED, ConfusionCheck.kind):
        check = stored.record(ConfusionCheck)
        chosen = canonical_json({"margin": check.margin})
        yield id_, EmbedderOrigin(check.embedder, "confusing_captions", chosen)
    for id_, stored in _linked_entities(connection, ids, Role.MATCHES, ConfusionMatch.kind):
        match = stored.record(ConfusionMatch)
        yield id_, EmbedderOrigin(match.embedder, "similar_images", "{}")
    for id_, values in _settings(connection, ids, Role.EXPANDED_WITH):
        chosen = canonical_json({name: values[name] for name in _EXPANSION if name in values})
        yield id_, EmbedderOrigin(values["embedder"], "candidates", chosen)
    yield from _contrastive_images(connection, ids)


def _validations(
    connection: Connection, captions: Sequence[str]
) -> Iterator[tuple[str, EmbedderOrigin]]:
    """Return the measured captions, each with the embedder and settings of the measurement."""
    measured = _linked_entities(connection, captions, Role.MEASURES, DiscriminabilityReport.kind)
    reports = grouped((report.id, caption) for caption, report in measured)
    for report_id, values in _settings(connection, reports, Role.VALIDATED_WITH):
        limits = {name: values["discriminability"][name] for name in _DISCRIMINABILITY}
        settings = canonical_json({**limits, "temperature": values["temperature"]})
        for caption in reports[report_id]:
            yield caption, EmbedderOrigin(values["embedder"], "validated_captions", settings)


def _contrastive_images(
    connection: Connection, ids: Sequence[str]
) -> Iterator[tuple[str, EmbedderOrigin]]:
    """Return the images that were found or edited for an anchor, by their candidates."""
    made = ancestor_ids(connection, ids, _TO_CANDIDATES, Candidate.kind)
    images = {candidate: image for image, many in made.items() for candidate in many}
    for candidate, values in _settings(connection, images, Role.WRITTEN_WITH):
        chosen = canonical_json({"least_shift": values["check"]["least_shift"]})
        yield images[candidate], EmbedderOrigin(values["embedder"], "edited_images", chosen)
    query = (
        select(Entity.id, Plan.configuration)
        .join(Activity, Activity.id == Entity.activity_id)
        .join(Plan, Plan.id == Activity.plan_id)
    )
    for candidate, configuration in rows_in(connection, query, Entity.id, images):
        if "choice" in configuration:  # of a search
            choice = configuration["choice"]
            chosen = canonical_json({name: choice[name] for name in _CHOICE})
            origin = EmbedderOrigin(configuration["embedder"], "found_images", chosen)
            yield images[candidate], origin


def _settings(
    connection: Connection, ids: Iterable[str], role: Role
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the settings that each of `ids` is linked to in a role."""
    for id_, many in fetch_parents(connection, ids, role).items():
        yield from ((id_, one.record(StageSettings).values) for one in many)


def _linked_entities(
    connection: Connection, ids: Iterable[str], role: Role, kind: str
) -> Iterator[tuple[str, StoredEntity]]:
    """Return (id, entity of a kind with this parent in a role), without withdrawn entities."""
    for parent_id, _, stored in children_in(connection, ids, (role,)):
        if stored.kind == kind and stored.state != "withdrawn":
            yield parent_id, stored


# Origins of strategies: the models and prompts that proposed the changes of contrastive images.
#
# The graph above a contrastive image that was made here::
#
# image ─accepted_from─► candidate ─made_for─► strategy ─prompted_by─► prompt
#
# A candidate or strategy that a person changed is `edited_from` a model's proposal.


class StrategyOrigin(NamedTuple):
    """The ids of prompts, the keys of model calls and the models behind an image's strategy."""

    prompts: frozenset[str] = frozenset()
    model_calls: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


UNKNOWN = StrategyOrigin()
"""The origin of an image without a known strategy."""


def strategy_origins(connection: Connection, ids: Iterable[str]) -> dict[str, StrategyOrigin]:
    """Return the origin of the strategy of each contrastive image that was made here."""
    strategies = ancestor_ids(connection, list(ids), _TO_STRATEGIES, Strategy.kind)
    every = {one for many in strategies.values() for one in many}
    prompts = parents_of(connection, every, Role.PROMPTED_BY)
    query = select(Entity.id, Entity.model_call_key)
    calls = {id_: key for id_, key in rows_in(connection, query, Entity.id, prompts) if key}
    authors = {
        one: strategy.record(Strategy).author
        for one, strategy in fetch(connection, prompts).items()
    }
    return {
        image: StrategyOrigin(
            frozenset(prompt for one in many for prompt in prompts[one]),
            frozenset(calls[one] for one in many if one in calls),
            frozenset(authors[one] for one in many if authors.get(one)),
        )
        for image, many in strategies.items()
        if many
    }
