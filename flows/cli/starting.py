"""`loupe init`: a build file for the user's own data, from five questions."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from loupe.flows.cli.options import settings
from loupe.flows.cli.output import Answer, asked, note
from loupe.flows.cli.sources import source_name, stated_columns, table_of
from loupe.schemas.errors import UsageError
from loupe.schemas.wording import shortened

if TYPE_CHECKING:
    from loupe.sources.sniffing import Sniffed

_SHOWN: Final = 80
_BUILDS: Final = ("pipeline", "build-ufine3c", "build-ccd")


def init(
    data: Annotated[str | None, typer.Argument(metavar="DATA")] = None,
    *,
    build: Literal["pipeline", "build-ufine3c", "build-ccd"] | None = None,
    name: str | None = None,
    licence: str | None = None,
    review: str | None = None,
    out: Path | None = None,
    image: str | None = None,
    identity: str | None = None,
    captions: list[str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Answer:
    """Write a commented build file for your data.

    Asks for what you do not state.

    Args:
        data: Your annotations and images: a file, folder, pattern or address (s3://…).
        build: What to build: a pipeline of your own steps (pipeline), captions with rewrites
            (build-ufine3c), or contrastive images (build-ccd).
        name: Name of the dataset.
        licence: Terms of the images and texts, an SPDX identifier if possible, such as CC-BY-4.0.
        review: What people decide on: everything (required), a tenth and all that a check doubts
            (sample:0.1) or nothing (auto).
        out: File to write; must not exist (default: NAME.toml).
        image: Column of the image or its path (default: what is found).
        identity: Column of what the image shows (default: what is found).
        captions: Column of captions; repeat it for several (default: what is found).
        encoding: Encoding of a text file, such as cp1252 (default: what is found).
        delimiter: What separates the cells of a text file (default: what is found).
    """
    from loupe.annotate.queues import parse_policy
    from loupe.flows.engine.importing import COPIES
    from loupe.schemas.base import DATASET_PATTERN
    from loupe.schemas.licences import nearest_licence
    from loupe.sources.remote import hub_address, located
    from loupe.sources.sniffing import sniff

    data = data or _asked("Where is your data (a file, folder or address)?", "DATA")
    place = located(hub_address(data), "", settings().home / COPIES, note)
    stated = stated_columns(image, identity, captions, encoding, delimiter)
    found = sniff(place.annotations, stated)
    note(f"{data}: {found.format}, such as {_shown(found)}")
    build = build or _chosen("What do you want to build?", _BUILDS, "--build")  # type: ignore[assignment]
    name = name or _asked("What is the dataset called?", "--name", f"my-{source_name(data)}")
    _require(DATASET_PATTERN, name, "--name")
    licence = licence or _asked(
        "Under which terms may the images and texts be used?",
        "--licence",
        found.licence or "CC-BY-4.0",
    )
    if near := nearest_licence(licence):
        raise UsageError(f"{licence!r} is no known licence (--licence); did you mean {near!r}?")
    review = review or _chosen(
        "Who decides on the texts: nobody, people on a tenth, or people on all?",
        ("auto", "sample:0.1", "required"),
        "--review",
    )
    parse_policy(review)
    target = out or Path(f"{name}.toml")
    text = _pipeline if build == "pipeline" else _build
    source_called = _other_than(name, source_name(data))
    source = table_of(found, data, target.parent, source_called, licence)
    content = text(str(build), name, review, source)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError as error:
        raise UsageError(f"{target} exists; state another file with --out") from error
    run = str(target) if build == "pipeline" else f"{build} --config {target}"
    if build == "build-ccd":
        run += " --profile hosted"  # those built in see drawn pictures alone
    lines = [
        f"written to {target}; next:",
        f"  loupe run {run} --check   # is everything there?",
        f"  loupe run {run}           # run it again to continue",
    ]
    return Answer({"file": str(target), "build": build, "format": found.format}, lines)


def _pipeline(_flow: str, name: str, review: str, source: str) -> str:
    return f"""# A pipeline of your own steps: docs/python.md. Run it with: loupe run {name}.toml

dataset = {json.dumps(name)}      # the name of the dataset and of its releases
version = "0.1.0"

# What is read, and which fields hold what: docs/sources.md.
{source}
# What is done, in this order.
[[steps]]
use = "filter"                    # drops images; other facts: docs/python.md#steps-that-are-there
where = "width_px >= 64 and height_px >= 64"

[[steps]]
use = "near_duplicates"           # keeps one of several images that show the same

# Who decides on what a step of yours writes, here captions: "auto" is nobody, "required" is people.
# [[steps]]
# use = "gate"
# name = "captions"
# of = "caption"
# page = "text"
# policy = {json.dumps(review)}

[[steps]]
use = "release"
# test_share = 0.2                # the share of identities for testing; the others are for
                                  # training (without it: the splits of the source, or test)
"""


def _build(flow: str, name: str, review: str, source: str) -> str:
    return f"""# A build file of {flow}: docs/build-files.md.
# Run it with: loupe run {flow} --config {name}.toml

dataset = {json.dumps(name)}      # the name of the dataset and of its releases
version = "0.1.0"
gate = {json.dumps(review)}       # who decides: "auto" is nobody, "required" is people

# What is read, and which fields hold what: docs/sources.md.
{source}"""


def _shown(found: "Sniffed") -> str:
    from loupe.sources.records import SourceRow

    usable = [one for one in found.rows if isinstance(one, SourceRow)]
    if not usable:
        return "records that cannot be used (loupe sources sniff says why)"
    first = usable[0]
    named = f"identity {first.identity}" if found.lacks_images else first.file_path
    if not first.captions:
        return named
    return f"{named} with {shortened(first.captions[0], _SHOWN)!r}"


def _other_than(dataset: str, name: str) -> str:
    return name if name != dataset else f"{name}-source"


def _asked(question: str, option: str, default: str | None = None) -> str:
    """Return the answer to a question.

    Raises:
        UsageError: nobody is there to answer it.
    """
    return str(_prompted(option, lambda: asked(question, default, err=True)))


def _chosen(question: str, choices: tuple[str, ...], option: str) -> str:
    """Return one of the choices; asks again until it is one."""
    listed = ", ".join(choices)
    while (answer := _asked(f"{question} ({listed})", option, choices[0])) not in choices:
        note(f"{answer!r} is none of {listed}")
    return answer


def _prompted(option: str, ask: Callable[[], object]) -> object:
    if not sys.stdin.isatty():
        raise UsageError(f"{option} is missing; state it, or answer the questions in a terminal")
    return ask()


def _require(pattern: str, value: str, option: str) -> None:
    if re.fullmatch(pattern, value) is None:
        raise UsageError(
            f"{option} must be letters, digits, dots, dashes and underscores; got {value!r}"
        )
