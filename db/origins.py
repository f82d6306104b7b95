"""Where released things come from: crops, embedders, strategies."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from db.entities import StoredEntity, pages, select_entities
from db.release_rows import derived_from, entities_by_id
from db.tables.provenance import Derivation, Entity, ParentEntity
from schemas.base import canonical_json
from schemas.proposals import Strategy
from schemas.provenance import Role
from schemas.recos import ConfusionCheck, ConfusionMatch, DiscriminabilityReport
from schemas.release import EmbedderPurpose
from schemas.video import StageSettings

# Which embedders chose and validated images and captions of a benchmark of tasks, and how.
#
# The graph around them::
#
# discriminability_report ─measures─► caption
# discriminability_report ─validated_with─► settings
# confusion_check ─measured─► caption
# confusion_match ─matches─► image that is like one that was there
# candidate without captions ─expanded_with─► settings

_DISCRIMINABILITY = ("k", "eta", "rounds")
_EXPANSION = ("neighbours", "near_duplicates")


class EmbedderOrigin(NamedTuple):
    """An embedder (`name@revision`), its purpose, and its settings as canonical JSON."""

    embedder: str
    purpose: EmbedderPurpose
    settings: str


def embedder_origins(connection: Connection, ids: Iterable[str]) -> dict[EmbedderOrigin, int]:
    """How many images and captions among `ids` were chosen or validated by each embedder."""
    counted: defaultdict[EmbedderOrigin, int] = defaultdict(int)
    for page in pages(ids):
        for origins in _of_page(connection, page).values():
            for origin in origins:
                counted[origin] += 1
    return dict(counted)


def _of_page(connection: Connection, page: Sequence[str]) -> Mapping[str, set[EmbedderOrigin]]:
    found: defaultdict[str, set[EmbedderOrigin]] = defaultdict(set)
    for id_, settings in _validated_with(connection, page):
        found[id_].add(_validation(settings))
    for id_, stored in _about(connection, page, Role.MEASURED, ConfusionCheck.kind):
        check = stored.record(ConfusionCheck)
        chosen = canonical_json({"margin": check.margin})
        found[id_].add(EmbedderOrigin(check.embedder, "confusing_captions", chosen))
    for id_, stored in _about(connection, page, Role.MATCHES, ConfusionMatch.kind):
        match = stored.record(ConfusionMatch)
        found[id_].add(EmbedderOrigin(match.embedder, "similar_images", "{}"))
    for id_, settings in _settings(connection, {one: (one,) for one in page}, Role.EXPANDED_WITH):
        chosen = canonical_json({name: settings[name] for name in _EXPANSION if name in settings})
        found[id_].add(EmbedderOrigin(settings["embedder"], "candidates", chosen))
    return found


def _validation(settings: Mapping[str, Any]) -> EmbedderOrigin:
    limits = settings["discriminability"]
    values = {name: limits[name] for name in _DISCRIMINABILITY}
    values["temperature"] = settings["temperature"]
    return EmbedderOrigin(settings["embedder"], "validated_captions", canonical_json(values))


def _validated_with(
    connection: Connection, captions: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The measured captions, each with the settings of the measurement."""
    reports: defaultdict[str, list[str]] = defaultdict(list)
    for caption, report in _about(connection, captions, Role.MEASURES, DiscriminabilityReport.kind):
        reports[report.id].append(caption)
    yield from _settings(connection, reports, Role.VALIDATED_WITH)


def _settings(
    connection: Connection, below: Mapping[str, Sequence[str]], role: Role
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The settings that the keys of `below` name in a role, for each of their values."""
    links = list(derived_from(connection, below, (role,)))
    stored = entities_by_id(connection, {parent for _, parent, _ in links})
    for child, parent, _ in links:
        values = stored[parent].record(StageSettings).values
        for one in below[child]:
            yield one, values


def _about(
    connection: Connection, ids: Sequence[str], role: Role, kind: str
) -> Iterator[tuple[str, StoredEntity]]:
    """(id, entity of a kind that names it in a role), without withdrawn entities."""
    query = (
        select_entities()
        .add_columns(ParentEntity.id)
        .join(Derivation, Derivation.child_seq == Entity.seq)
        .join(ParentEntity, Derivation.parent_seq == ParentEntity.seq)
        .where(Derivation.role == role, Entity.kind == kind)
        .where(Entity.state != "withdrawn", ParentEntity.id.in_(ids))
    )
    for *entity, parent_id in connection.execute(query):
        yield parent_id, StoredEntity._make(entity)


# Which models were asked for the strategies that contrastive images were made for, and how.
#
# The graph above a contrastive image that was made here::
#
# image ─accepted_from─► candidate ─made_for─► strategy ─prompted_by─► prompt
#
# A candidate or strategy that a person changed is `edited_from` the one that a model proposed.

_Above = Mapping[str, set[str]]


class StrategyOrigin(NamedTuple):
    """The ids of prompts, the keys of model calls and the models behind an image's strategy."""

    prompts: frozenset[str] = frozenset()
    model_calls: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


UNKNOWN = StrategyOrigin()
"""Of an image that no strategy is known of."""


def strategy_origins(connection: Connection, ids: Iterable[str]) -> dict[str, StrategyOrigin]:
    """For each contrastive image among `ids` that was made here what its strategy is from."""
    candidates = _with_earlier(
        connection, _above(connection, {id_: {id_} for id_ in ids}, Role.ACCEPTED_FROM)
    )
    strategies = _with_earlier(connection, _above(connection, candidates, Role.MADE_FOR))
    prompts = _above(connection, {one: {one} for one in _all(strategies)}, Role.PROMPTED_BY)
    proposed = [one for one, of_it in prompts.items() if of_it]
    calls = _calls_of(connection, proposed)
    authors = {
        one: strategy.record(Strategy).author
        for one, strategy in entities_by_id(connection, proposed).items()
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


def _above(connection: Connection, below: _Above, role: Role) -> dict[str, set[str]]:
    """For each key, the parents of its entities in a role."""
    parents: dict[str, set[str]] = defaultdict(set)
    for child, parent, _ in derived_from(connection, _all(below), (role,)):
        parents[child].add(parent)
    return {key: {up for one in many for up in parents[one]} for key, many in below.items()}


def _with_earlier(connection: Connection, found: _Above) -> dict[str, set[str]]:
    """For each key, its entities and all that they were edited from."""
    whole = {key: set(many) for key, many in found.items()}
    level: _Above = found
    while any(level.values()):
        level = _above(connection, level, Role.EDITED_FROM)
        for key, many in level.items():
            whole[key] |= many
    return whole


def _all(found: _Above) -> set[str]:
    return {one for many in found.values() for one in many}


def _calls_of(connection: Connection, ids: Iterable[str]) -> dict[str, str]:
    """The key of the model call that each entity came of; those of none are left out."""
    query = select(Entity.id, Entity.model_call_key)
    return {
        id_: key
        for page in pages(ids)
        for id_, key in connection.execute(query.where(Entity.id.in_(page)))
        if key is not None
    }
