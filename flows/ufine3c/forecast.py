"""Forecast the calls that a run of `build-ufine3c` would still make, and their cost."""

from typing import NamedTuple

from loupe.db.store import Store
from loupe.flows.engine.model_step import StagePlan
from loupe.flows.forecast import JUDGEMENT, REWRITE, ForecastRow, forecast_calls
from loupe.flows.rewriting import plan_rewriting
from loupe.flows.ufine3c.judging import plan_judging
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import ChatModelSpec, Profile


class Plans(NamedTuple):
    """The stages of a run that ask models; `judging` is None without a judge."""

    rewriting: tuple[StagePlan, ...]
    judging: StagePlan | None


def rewriters_of(profile: Profile) -> tuple[ChatModelSpec, ...]:
    """Return the models of a profile that rewrite.

    Raises:
        ConfigurationError: it has none.
    """
    if not profile.rewrite.models:
        raise ConfigurationError(
            f"profile {profile.name!r}: rewrite.models is missing: the models that rewrite "
            f"descriptions; see docs/profiles.md"
        )
    return profile.rewrite.models


def plan_calls(dataset: str, profile: Profile) -> Plans:
    """Plan the rewrites by each model of a profile, and the judgements on them."""
    settings, judge = profile.rewrite, profile.judge
    rewriters = rewriters_of(profile)
    return Plans(
        rewriting=tuple(plan_rewriting(dataset, spec, settings) for spec in rewriters),
        judging=None if judge is None else plan_judging(dataset, judge),
    )


def forecast(store: Store, plans: Plans) -> list[ForecastRow]:
    """Count the pending calls of a dataset: rewrites by model, then those of the judge.

    Equal captions are counted one by one but sent once.

    Tokens per call are the mean of this model's calls of this kind so far. Before the first call,
    they are estimated from the prompt and the first captions (a rewrite is as long as its caption,
    a judgement three times as long).
    Captions that are not imported and drawn yet are not counted. The judge reads every later
    rewrite, too.
    """
    rows = [
        forecast_calls(store, plan, plan.count_pending(store), REWRITE) for plan in plans.rewriting
    ]
    if plans.judging is not None:
        calls = plans.judging.count_pending(store) + sum(row.calls for row in rows)
        rows.append(forecast_calls(store, plans.judging, calls, JUDGEMENT))
    return rows
