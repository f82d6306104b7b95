"""Which models were asked for the strategies that contrastive images were made for, and how.

The graph above a contrastive image that was made here::

    image ─accepted_from─► candidate ─made_for─► strategy ─prompted_by─► prompt

A candidate or strategy that a person changed is `edited_from` the one that a model proposed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select

from db.entities import pages
from db.release_rows import derived_from, entities_by_id
from db.tables.provenance import Entity
from schemas.proposals import Strategy

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
        connection, _above(connection, {id_: {id_} for id_ in ids}, "accepted_from")
    )
    strategies = _with_earlier(connection, _above(connection, candidates, "made_for"))
    prompts = _above(connection, {one: {one} for one in _all(strategies)}, "prompted_by")
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


def _above(connection: Connection, below: _Above, role: str) -> dict[str, set[str]]:
    """What the entities beside each key were derived from in a role."""
    parents: dict[str, set[str]] = defaultdict(set)
    for child, parent, _ in derived_from(connection, _all(below), (role,)):
        parents[child].add(parent)
    return {key: {up for one in many for up in parents[one]} for key, many in below.items()}


def _with_earlier(connection: Connection, found: _Above) -> dict[str, set[str]]:
    """The entities beside each key, with all that they were edited from."""
    whole = {key: set(many) for key, many in found.items()}
    level: _Above = found
    while any(level.values()):
        level = _above(connection, level, "edited_from")
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
