"""`loupe check`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json

if TYPE_CHECKING:
    from flows.ufine3c.faithfulness import RewritePair
    from schemas.faithfulness import FaithfulnessReport
    from schemas.records import Rejection

_STYLES = {"faithful": "green", "suspect": "yellow", "rejected": "red"}


def check(
    pairs: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PAIRS.jsonl]",
            help='One pair a line: {"source": "…", "rewrite": "…"}; "-" reads standard input.',
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="One description.")] = None,
    rewrite: Annotated[str | None, typer.Option(help="Its rewrite.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="Profile whose [faithfulness] settings count.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether rewrites say what their descriptions say.

    Each pair is faithful, suspect (a fact was added or contradicted: a person should look) or
    rejected (it is no rewrite: empty, a copy, a refusal, another language …). With --json a list in
    the order of the pairs. Exit code 0 whatever is found.
    """
    from flows.ufine3c.faithfulness import RewritePair, check_faithfulness
    from profiles.loader import load_profile
    from profiles.settings import load_settings
    from schemas.errors import UsageError

    if (source is None) != (rewrite is None) or (pairs is None) == (source is None):
        raise UsageError("give a file of pairs, or --source and --rewrite")
    if source is not None and rewrite is not None:
        given = [RewritePair(source=source, rewrite=rewrite)]
    else:
        given = list(_pairs_in(pairs or Path("-")))
    settings = load_profile(profile or load_settings().profile).faithfulness
    found = [_as_json(one) for one in check_faithfulness(given, settings)]
    if as_json:
        print_json(found)
        return
    for number, one in enumerate(found, start=1):
        verdict = one["verdict"]
        out.print(f"{number}  [{_STYLES[verdict]}]{verdict}[/]", soft_wrap=True)
        for finding in one["findings"]:
            out.print(f"   {escape(finding['message'])}", soft_wrap=True)
    counts = ", ".join(
        f"{sum(one['verdict'] == verdict for one in found):,} {verdict}" for verdict in _STYLES
    )
    err.print(f"pairs checked: {len(found):,} ({counts})", soft_wrap=True)


def _pairs_in(path: Path) -> "Iterator[RewritePair]":
    """The pairs of a file of JSON lines, whatever else these hold; blank lines are left out."""
    from flows.ufine3c.faithfulness import RewritePair
    from schemas.errors import FormatError
    from schemas.faults import fault_of

    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror})") from error
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            texts = {key: found[key] for key in ("source", "rewrite") if key in found}
            yield RewritePair.model_validate(texts)
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(
                f"{path}, line {number}: {fault_of(error, RewritePair)}; "
                f'each line must be {{"source": "…", "rewrite": "…"}}'
            ) from error


def _as_json(result: "FaithfulnessReport | Rejection") -> dict[str, Any]:
    """The verdict and the findings, each with a `message`; a rejection has one, with its reason."""
    from schemas.records import Rejection

    if isinstance(result, Rejection):
        finding = {"change": result.reason, "message": result.detail}
        return {"verdict": "rejected", "findings": [finding]}
    return {
        "verdict": result.verdict,
        "findings": [one.model_dump(mode="json") for one in result.findings],
    }
