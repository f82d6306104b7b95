"""`loupe check`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.options import chosen_profile
from loupe.flows.cli.output import Answer, Note
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.schemas.faithfulness import FaithfulnessReport
    from loupe.schemas.records import Rejection

_VERDICTS = ("faithful", "suspect", "rejected")


def check(
    pairs: Annotated[Path | None, typer.Argument(metavar="[PAIRS.jsonl]")] = None,
    *,
    source: str | None = None,
    rewrite: str | None = None,
    profile: str | None = None,
    checks: str = "form,support,person",
) -> Answer:
    """Check whether rewrites are faithful to their descriptions.

    Judges pairs as a build does. A rewrite is faithful, suspect (a fact was added or contradicted,
    or a part has no support: a person should check it) or rejected (not a caption, a copy, a
    refusal, another language …). With --json, prints a list in the order of the pairs. The exit
    code does not depend on the verdicts; it is 2 if there is no pair.

    Args:
        pairs: File with one pair per line: {"source": "…", "rewrite": "…"}; "-" reads standard
            input.
        source: A single description.
        rewrite: The rewrite of --source.
        profile: Profile whose [rewrite] and [faithfulness] settings are used.
        checks: Checks of the build, separated by commas. Leave out "person" for texts that are not
            about people.
    """
    from loupe.flows.faithfulness import check_written
    from loupe.models.imported_rewrites import EACH_LINE, read_pairs, read_pairs_of
    from loupe.schemas.faithfulness import RewritePair

    if (source is None) != (rewrite is None) or (pairs is None) == (source is None):
        raise UsageError("give a file of pairs, or --source and --rewrite")
    if source is not None and rewrite is not None:
        given = [RewritePair(source=source, rewrite=rewrite)]
    elif pairs is not None and str(pairs) != "-":
        given = list(read_pairs_of(pairs))
    else:
        given = list(read_pairs(sys.stdin.buffer.read(), "standard input"))
    if not given:
        where = "standard input" if str(pairs) == "-" else pairs
        raise UsageError(f"there is no pair to check in {where}; {EACH_LINE}")
    chosen = chosen_profile(profile)
    settings, limit = chosen.faithfulness, chosen.rewrite.max_characters
    asked = [name.strip() for name in checks.split(",")]
    found = [_as_json(check_written(one, settings, limit, asked)) for one in given]
    lines = []
    for number, one in enumerate(found, start=1):
        lines.append(f"{number}  {one['verdict']}")
        lines += [f"   {finding['message']}" for finding in one["findings"]]
    counts = (f"{sum(one['verdict'] == name for one in found):,} {name}" for name in _VERDICTS)
    return Answer(found, [*lines, Note(f"pairs checked: {len(found):,} ({', '.join(counts)})")])


def _as_json(result: "FaithfulnessReport | Rejection") -> dict[str, Any]:
    """Return the verdict and the findings with their `message`; a rejection has one, its reason."""
    from loupe.schemas.records import Rejection

    if isinstance(result, Rejection):
        finding = {"change": result.reason, "message": result.detail}
        return {"verdict": "rejected", "findings": [finding]}
    findings = [one.model_dump(mode="json") for one in result.findings]
    return {"verdict": result.verdict, "findings": findings}
