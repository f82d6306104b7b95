"""`loupe judge`: how good a chat model is at judging rewrites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import chosen_profile, opened_run
from loupe.flows.cli.output import Answer, Line, Table
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.checks.known_pairs import KnownPair
    from loupe.flows.judgements import Calibration
    from loupe.schemas.quality import JudgeMeasurement

_DATASET = "judge-calibration"
_SHIPPED = "shipped"

app = group("Measure the judge of a profile.")


@app.callback()
def judge() -> None:
    """Measure the judge of a profile."""


@command(app)
def calibrate(
    pairs: Annotated[Path | None, typer.Argument(metavar="[PAIRS.jsonl]")] = None,
    *,
    profile: str | None = None,
    limit: Annotated[int | None, typer.Option(min=2)] = None,
    show: Annotated[int, typer.Option(min=0)] = 3,
) -> Answer:
    """Measure the judge of a profile on pairs whose truth is known.

    Prints the share of wrong pairs found, the share of false alarms, and Youden's J (found minus
    false alarms), each with a 95 % interval, and a table for the profile, which the cards of
    releases quote. Answers are stored, so repeating the command costs nothing.

    Args:
        pairs: One pair per line: {"source": "…", "rewrite": "…", "faithful": true}, optionally with
            "kind" (default: the pairs that come with Loupe, English descriptions of people).
        profile: Profile with the judge.
        limit: Ask only about this many pairs, evenly spread.
        show: Number of missed pairs and of false alarms to show.
    """
    from loupe.checks.known_pairs import read_known_pairs, shipped_pairs
    from loupe.flows.engine.model_step import DatasetModel
    from loupe.flows.judgements import calibrate as measure
    from loupe.prompts.loader import load_prompt

    chosen = chosen_profile(profile)
    if chosen.judge is None:
        raise UsageError(
            f"profile {chosen.name!r} names no judge; add [judge.model] to a profile, see "
            f"docs/profiles.md#a-second-opinion-on-rewrites"
        )
    known = shipped_pairs() if pairs is None else read_known_pairs(pairs)
    name = _SHIPPED if pairs is None else pairs.stem
    asked = _spread(known, limit)
    context = opened_run()
    model = DatasetModel(context, _DATASET, chosen.judge.model)
    found = measure(model.model, load_prompt(chosen.judge.prompt), asked, name)
    return _answer(model.author, found, show)


def _spread(pairs: "tuple[KnownPair, ...]", limit: int | None) -> "list[KnownPair]":
    if limit is None or limit >= len(pairs):
        return list(pairs)
    return [pairs[at * len(pairs) // limit] for at in range(limit)]


def _answer(author: str, found: "Calibration", show: int) -> Answer:
    from loupe.schemas.quality import wilson_interval

    measured = found.measured
    if not measured.changed or not measured.faithful:
        raise UsageError(
            f"{author} gave no usable answer ({found.unanswered:,} unusable), or only answers "
            f"about pairs of one kind; look at its answers with: loupe quarantine {_DATASET}"
        )
    value, interval = measured.youden
    rows = [
        _row("wrong pairs found", measured.found, measured.changed),
        _row("false alarms", measured.alarms, measured.faithful),
        ("Youden's J", "", f"{value:.3f}", f"{interval.lower:.3f} to {interval.upper:.3f}"),
    ]
    lines: list[Line] = [Table(f"{author}:", ("", "pairs", "share", "95 % interval"), rows)]
    if found.unanswered:
        lines.append(f"  {found.unanswered:,} pairs without a usable answer are not counted")
    lines += [
        f"  missed ({pair.kind or 'a wrong fact'}): {pair.rewrite}" for pair in found.missed[:show]
    ]
    lines += [
        f"  false alarm: {pair.rewrite} ({' '.join(objections)})"
        for pair, objections in found.alarms[:show]
    ]
    lines += ["", "for the profile:", *_table(author, measured)]
    document = {
        "judge": author,
        **measured.model_dump(mode="json"),
        "found_interval": wilson_interval(measured.found, measured.changed),
        "alarms_interval": wilson_interval(measured.alarms, measured.faithful),
        "youden": value,
        "youden_interval": interval,
        "unanswered": found.unanswered,
    }
    return Answer(document, lines)


def _row(name: str, count: int, total: int) -> tuple[str, str, str, str]:
    from loupe.schemas.quality import wilson_interval

    low, high = wilson_interval(count, total)
    share = f"{100 * count / total:.1f} %"
    return name, f"{count:,} of {total:,}", share, f"{100 * low:.1f}–{100 * high:.1f} %"


def _table(author: str, measured: "JudgeMeasurement") -> list[str]:
    """Return the measurement as a table of a profile."""
    values = {"judge": author, **measured.model_dump(mode="json")}
    quoted = {key: f'"{one}"' if isinstance(one, str) else one for key, one in values.items()}
    return ["[judge.measured]", *(f"{key} = {value}" for key, value in quoted.items())]
