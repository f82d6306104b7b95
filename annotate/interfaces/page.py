"""What the pages have in common: regions, choices, images, and foreign text made harmless."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from annotate.interfaces.interface import TaskContent
from annotate.sdk import parse_config
from schemas.errors import ServiceError


def resource(name: str) -> str:
    """A file beside this one: a page's XML, its instructions, or a script of it."""
    return files("annotate.interfaces").joinpath(name).read_text(encoding="utf-8")


_INSTRUCTIONS_STYLE = (
    ".loupe-told p, .loupe-told ul { margin: 8px 0; } "
    ".loupe-told ul { list-style: disc; padding-left: 20px; }"
)


def instructions(name: str) -> str:
    """The instructions in a file beside this one, with the space that Label Studio takes out."""
    style = f"<style>{_INSTRUCTIONS_STYLE}</style>"
    return f'<div class="loupe-told">{style}{resource(name).strip()}</div>'


def script_frame(name: str, document: str) -> str:
    """A frame with a document of ours in it, as HTML for the `value` of a `Markdown` tag.

    Label Studio's own tags run no scripts, and its tag for scripted controls (`ReactCode`) is not
    in the community edition; its `Markdown` tag shows HTML, frames included. What such a script
    does is a help and no more: a Label Studio that shows no frames has the same page without it.
    For the same reason no foreign text may ever stand in a `Markdown` tag.

    Args:
        name: the name of the frame's class, for the page's style.
        document: the document, without any `$`, which Label Studio would take for a variable.
    """
    # A line break would end the HTML for Markdown.
    inside = escape(document).replace("\n", "&#10;")
    return escape(f'<iframe class="{name}" title="" srcdoc="{inside}"></iframe>')


def with_text_keys(config: str) -> str:
    """The page with keys for its text (class `loupe-write`): Enter goes there, Escape leaves it.

    Label Studio's own keys do nothing while the cursor is in a text.
    """
    document = f"<script>{resource('text_keys.js')}</script>"
    return config.replace("TEXT_KEYS", script_frame("loupe-keys", document))


def image_address(images_url: str, sha256: str) -> str:
    """Where the annotator's browser finds an image."""
    return f"{images_url.rstrip('/')}/{sha256}"


class Control(NamedTuple):
    """Something on a page that answers; `offered` is None where each task has choices of its own.

    `name` is a pattern, since a page may repeat a control for each row of its data.
    """

    name: re.Pattern[str]
    kind: str
    target: str
    single: bool
    offered: frozenset[str] | None


_VALUES = {"choices": "choices", "textarea": "text"}
"""What the value of a region is called, by the region's type."""
_SHOWN_CHARACTERS = 60


@cache
def controls(config: str) -> tuple[Control, ...]:
    """The controls of a page."""
    root = ET.fromstring(config)  # noqa: S314 - our own page
    return tuple(
        Control(
            re.compile(r"\d+".join(map(re.escape, re.split(r"{{\w+}}", tag.get("name", ""))))),
            tag.tag.lower(),
            tag.get("toName", ""),
            tag.get("choice", "").startswith("single"),
            _offered(tag),
        )
        for tag in root.iter()
        if tag.tag.lower() in _VALUES
    )


def _offered(tag: ET.Element) -> frozenset[str] | None:
    if tag.tag != "Choices" or tag.get("value", "").startswith("$"):
        return None
    return frozenset(one.get("alias", one.get("value", "")) for one in tag.iter("Choice"))


def malformed(config: str, result: Any) -> str:
    """Why the page cannot have made these regions; "" where it can.

    Each region is looked at by itself; the first that is wrong is named.
    """
    if not isinstance(result, list):
        return f"an answer must be a list of regions; got {_shown(result)}"
    chosen: set[str] = set()
    for number, region in enumerate(result, start=1):
        if problem := _malformed_region(config, region, chosen):
            return f"region {number} {problem}"
    return ""


def _malformed_region(config: str, region: Any, chosen: set[str]) -> str:
    """What is wrong with a region; `chosen` collects the controls with one choice only."""
    if not isinstance(region, dict):
        return f"must be an object; got {_shown(region)}"
    name = region.get("from_name")
    fitting = (one for one in controls(config) if one.name.fullmatch(str(name)))
    control = next(fitting, None)
    if control is None or not isinstance(name, str):
        return f"must name a control of the page; got {_shown(name)}"
    kind = _VALUES[control.kind]
    if region.get("type") != control.kind:
        return f"({name}) must be of the type {control.kind}; got {_shown(region.get('type'))}"
    if region.get("to_name") != control.target:
        return f"({name}) must be about {control.target}; got {_shown(region.get('to_name'))}"
    value = region.get("value")
    given = value.get(kind) if isinstance(value, dict) else value
    if not isinstance(given, list) or not all(map(_is_text, given)):
        return f"({name}) must hold a list of texts as its {kind}; got {_shown(given)}"
    if control.offered is not None and (unknown := [x for x in given if x not in control.offered]):
        return f"({name}) must hold choices that the page offers; got {_shown(unknown[0])}"
    if control.single and (len(given) != 1 or name in chosen):
        return f"({name}) must hold one choice; got {_shown(given)}"
    if control.single:
        chosen.add(name)
    return ""


def _is_text(value: Any) -> bool:
    """Whether it is a text that can be stored."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)


def _shown(value: Any) -> str:
    """A value in a message; deep ones are cut before they are walked through."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return ascii(value)[:_SHOWN_CHARACTERS]


def values(result: Sequence[dict[str, Any]], control: str, kind: str) -> list[str]:
    """All values of `kind` (`choices`, `text`) that an annotation has in a control, in order."""
    return [
        str(value)
        for region in result
        if region.get("from_name") == control
        for value in region.get("value", {}).get(kind, [])
    ]


def only_choice(result: Sequence[dict[str, Any]], control: str) -> str | None:
    """What was chosen in a control, or None where nothing or more than one thing was."""
    chosen = values(result, control, "choices")
    return chosen[0] if len(chosen) == 1 else None


def one_line(text: str) -> str:
    """The text with single spaces, and without characters that cannot be seen."""
    visible = "".join(
        character for character in text if character.isprintable() or character.isspace()
    )
    return re.sub(r"\s+", " ", visible).strip()


def choice_region(control: str, target: str, *choices: str) -> dict[str, Any]:
    """A pre-annotation that ticks `choices`."""
    return {
        "from_name": control,
        "to_name": target,
        "type": "choices",
        "value": {"choices": list(choices)},
    }


def validate(config: str, contents: Sequence[TaskContent]) -> None:
    """Checks pre-annotations against a page before Label Studio has to.

    Raises:
        ServiceError: one does not fit.
    """
    guesses = [guess for content in contents for guess in content.predictions]
    if not guesses:
        return  # the SDK takes seconds to import
    interface = parse_config(config)
    for guess in guesses:
        problems = interface.validate_prediction(guess, return_errors=True)
        if problems:
            raise ServiceError(f"a page does not fit its interface: {'; '.join(problems)}")
