"""What the pages have in common: regions, choices, images, and foreign text made harmless."""

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

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
