"""Texts that are no faithful descriptions are not accepted, whatever they are; good ones are."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from loupe.flows.faithfulness import check_written
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import FaithfulnessSettings

_FILE = Path(__file__).parents[1] / "data" / "doubtful.toml"
_ABOUT = ("language", "source", "good")


class _Line(NamedTuple):
    kind: str
    language: str
    source: str
    text: str


def _lines() -> Iterator[_Line]:
    for one in tomllib.loads(_FILE.read_text("utf-8"))["described"]:
        language = one.get("language", "en")
        for text in one["good"]:
            yield _Line("good", language, one["source"], text)
        for kind in one.keys() - set(_ABOUT):
            for text in one[kind]:
                yield _Line(kind, language, one["source"], text)


def _judged(line: _Line, *checks: str) -> str:
    settings = FaithfulnessSettings(language=line.language)
    pair = RewritePair(source=line.source, rewrite=line.text)
    found = check_written(pair, settings, 2000, checks)
    if not isinstance(found, FaithfulnessReport):
        return f"{found.reason}: {found.detail}"
    said = [one.message for one in found.findings if one.change != "lost" and not one.minor]
    return "; ".join([found.verdict, *said])


@pytest.mark.parametrize("checks", [("form", "support"), ("form", "support", "person")])
def test_faithful_rewrites_are_accepted_and_no_other_texts(checks: tuple[str, ...]) -> None:
    wrong = []
    for line in _lines():
        judged = _judged(line, *checks)
        if (judged == "faithful") != (line.kind == "good"):
            wrong.append(f"{line.kind} ({line.language}): {line.text}\n    {judged}")
    assert not wrong, "\n".join(wrong)
