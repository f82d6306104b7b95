"""Which candidates stand: one image a strategy, made as the settings are now."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from db.decisions import RETIRED, decided_by_people, last_agents, last_reasons
from db.entities import LIVE, NewEntity, StoredEntity, fetch, find, parents_of
from flows.captioning import WRITTEN_WITH
from flows.context import RunContext
from flows.image_orders import MADE_FOR
from flows.retiring import keep_current
from schemas.proposals import Candidate
from schemas.tracked_video import StageSettings


def keep_standing_candidates(
    context: RunContext, dataset: str, in_force: Mapping[str, NewEntity | None]
) -> None:
    """Takes back candidates that do not stand any more, and puts back those that do again.

    Of a strategy that is not accepted none stands. Of several the first one does that was not
    turned down: who accepts after all what was found does without what was edited in its stead.
    One that was measured or judged with other settings makes way, unless people decided on it and
    its picture would be made the same now; a picture that people turned down is not shown them
    again because it was measured anew.

    Args:
        context: the run.
        dataset: the benchmark.
        in_force: the settings of today by their stage; None where today's are not known yet, so
            that nothing was made with them. Of other stages every result is as good as another.
    """
    store = context.store
    candidates = {one.id: one for one in find(store, dataset, Candidate.kind)}
    made_for = {id_: found[0] for id_, found in parents_of(store, candidates, MADE_FOR).items()}
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
    keep_current(context, dataset, Candidate.kind, lambda one: one.id in standing, LIVE)


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
        self._reasons = last_reasons(store, rejected)
        self._judges = last_agents(store, rejected)
        self._by_people = decided_by_people(store, ids)
        written = parents_of(store, ids, WRITTEN_WITH)
        settings = fetch(store, {found[0] for found in written.values()})
        self._settings = {id_: settings[found[0]] for id_, found in written.items()}
        self._in_force = in_force

    def is_refused(self, candidate: StoredEntity) -> bool:
        """Whether people turned the candidate down."""
        judge = self._judges.get(candidate.id)
        return judge is not None and judge.kind == "person"

    def may_stand(self, candidate: StoredEntity) -> bool:
        """Whether nobody turned the candidate down, and it is as it would be made now."""
        is_open = candidate.state in LIVE or self._reasons.get(candidate.id) == RETIRED
        return is_open and self._is_of_today(candidate)

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
