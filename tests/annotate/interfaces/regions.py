"""Regions as Label Studio's pages create them, and parsers of pages."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

Regions = list[dict[str, Any]]


def ticked(control: str, *choices: str) -> dict[str, Any]:
    """Return a region with selected choices."""
    return {"from_name": control, "type": "choices", "value": {"choices": list(choices)}}


def written(control: str, *texts: str) -> dict[str, Any]:
    """Return a region with written texts."""
    return {"from_name": control, "type": "textarea", "value": {"text": list(texts)}}


def variables(config: str) -> set[str]:
    """Return the names of the task data that a page uses."""
    found: set[str] = set()
    for tag in ET.fromstring(config).iter():  # noqa: S314 - our own page
        for attribute in ("value", "on"):
            if match := re.match(r"\$(\w+)", tag.get(attribute, "")):
                found.add(match.group(1))
    return found


class ParsedHtml(HTMLParser):
    """The tags, attributes and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data
