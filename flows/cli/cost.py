"""`loupe cost`: what model calls used, and what the next run would."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import Figure, JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    from db.calls import CostRow


def cost(
    dataset: Annotated[str | None, typer.Argument(help="A dataset (default: all).")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Forecast what a run of this build file would still use.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="The profile of the forecast.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show calls, tokens, searches, seconds and money by model; with --config, a forecast too."""
    from db.calls import CostRow, cost_rows
    from db.store import Store
    from flows.engine.build_files import load_build
    from flows.engine.forecast import forecast
    from profiles.loader import load_profile
    from profiles.settings import load_settings

    settings = load_settings()
    store = Store.open(settings.database_url)
    spent = cost_rows(store, dataset)
    ahead = []
    if config is not None:
        chosen = load_profile(profile or settings.profile)
        ahead = forecast(store, load_build(config), chosen)
    if as_json:
        print_json(
            {
                "spent": [row._asdict() for row in spent],
                "forecast": [row._asdict() for row in ahead],
            }
        )
        return
    if not spent:
        out.print("no model was called, and no service searched, yet")
    else:
        columns = [*(name.replace("_", " ") for name in CostRow._fields)]
        print_table("Calls of models and searches", columns, map(_shown, spent))
    if ahead:
        columns = ["model", "calls to make", "tokens in", "tokens out", "cost", "currency"]
        print_table("Forecast", columns, ahead)


def _shown(row: "CostRow") -> tuple[object, ...]:
    """The row with sums that say so where calls are missing in them whose usage is not known."""
    from flows.engine.report import known_sum

    unknown = row.unknown_usage
    sums = {
        "tokens_in": Figure(known_sum(row.tokens_in, unknown)),
        "tokens_out": Figure(known_sum(row.tokens_out, unknown)),
        "cost": Figure(known_sum(row.cost, unknown if row.currency else 0)),
    }
    return tuple((row._asdict() | sums).values())
