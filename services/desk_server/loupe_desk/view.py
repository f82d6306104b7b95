"""Hides from annotators what the gate would refuse them.

The community edition has no roles and shows every button to everybody. Hiding them is a courtesy
that depends on element names, which a new version may change; the gate is what protects.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from loupe_desk.gate import only_labels

_HIDDEN = (
    "section:has(a[href='/projects']) button[data-align='center']",  # create, invite: front page
    "button[aria-label='Create new project']",
    "button[aria-label='Project options']",
    "button[aria-label='Tasks Actions']",
    "a[href^='/projects/'][href$='/settings']",
    "[data-testid='dm-import-button']",
    "[data-testid='dm-export-button']",
    ".lsf-heidy-tip",  # what its makers want to sell
)
_STYLE = f"<style>{', '.join(_HIDDEN)} {{ display: none !important }}</style></head>".encode()


class LabellingView:
    """Django middleware that hides the buttons for what is no part of labelling."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The response; annotators' pages show less."""
        answer = self._get_response(request)
        is_page = answer.get("Content-Type", "").startswith("text/html") and not answer.streaming
        if is_page and only_labels(request.user):
            answer.content = answer.content.replace(b"</head>", _STYLE, 1)
        return answer
