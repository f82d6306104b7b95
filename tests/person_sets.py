"""Descriptions of persons with faithful rewrites, for tests and the benchmark."""

import json
import tomllib
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent / "data"
_SHIPPED = Path(__file__).parents[1] / "checks" / "known_pairs"
REAL = Path(__file__).parents[1].parent / "shared" / "data" / "person_descriptions.json"


class Pair(NamedTuple):
    """A description and a rewrite that a person accepted."""

    source: str
    rewrite: str


def development_pairs() -> list[Pair]:
    """Our own paraphrases that the checks were developed on."""
    held_out = _read("person_paraphrases_held_out.json")
    return _pairs([*_read("person_paraphrases.json"), *held_out[::2]])


def held_out_pairs() -> list[Pair]:
    """Half of a later file of our own paraphrases; since version 6 also used in development."""
    return _pairs(_read("person_paraphrases_held_out.json")[1::2])


def real_paraphrases(part: str) -> list[Pair]:
    """Our paraphrases of published descriptions; `part` is `development` or `untouched`.

    The parts have no person in common. Since version 4 the check is developed on both.
    """
    entries = json.loads(REAL.read_text("utf-8"))
    people = tomllib.loads((_HERE / "real_person_paraphrases.toml").read_text("utf-8"))["person"]
    return [
        Pair(entries[person["entry"]]["captions"][own["caption"]], text)
        for person in people
        if person["part"] == part
        for own in person["captions"]
        for text in own["paraphrases"]
    ]


class Changed(NamedTuple):
    """A text with one changed fact, the original text, and the kind of the fact."""

    kind: str
    original: str
    text: str


class Person(NamedTuple):
    """A description with faithful paraphrases and with texts that have one changed fact."""

    description: str
    faithful: list[str]
    changed: list[Changed]

    def pairs(self) -> list[Pair]:
        """Return each paraphrase with the description."""
        return [Pair(self.description, text) for text in self.faithful]


def hand_written(name: str) -> list[Person]:
    """Descriptions written by hand, from the file of that name.

    Nothing may be developed on `untouched_pairs`, `voices_pairs` and `independent_pairs`.
    """
    path = next(one for one in (_HERE / f"{name}.toml", _SHIPPED / f"{name}.toml") if one.exists())
    people = tomllib.loads(path.read_text("utf-8"))["person"]
    found = []
    for person in people:
        texts = [person["description"], *person["faithful"]]
        changed = [
            Changed(kind, texts[n], texts[n].replace(old, new) if old else f"{texts[n]} {new}")
            for kind, n, old, new in person["changed"]
        ]
        found.append(Person(texts[0], texts[1:], changed))
    return found


class Labelled(NamedTuple):
    """A rewrite by a real model and its fault, labelled by hand; None if it is faithful."""

    pair: Pair
    fault: str | None


def smollm2_rewrites() -> list[Labelled]:
    """Rewrites of the published descriptions by SmolLM2, labelled by hand."""
    entries = json.loads(REAL.read_text("utf-8"))
    rows = tomllib.loads((_HERE / "smollm2_rewrites.toml").read_text("utf-8"))["rewrite"]
    return [
        Labelled(
            Pair(entries[row["entry"]]["captions"][row["caption"]], row["text"]), row.get("fault")
        )
        for row in rows
    ]


def own_texts() -> list[str]:
    """All texts of both files of our own paraphrases."""
    entries = [*_read("person_paraphrases.json"), *_read("person_paraphrases_held_out.json")]
    return [text for entry in entries for text in (entry["description"], *entry["paraphrases"])]


def real_pairs(figure: int) -> list[Pair]:
    """All ordered pairs of published descriptions of one image, from a figure of the paper."""
    entries = json.loads(REAL.read_text("utf-8"))
    chosen = [entry for entry in entries if entry["from"].endswith(f"figure {figure}")]
    return [Pair(*pair) for entry in chosen for pair in permutations(entry["captions"], 2)]


def real_texts() -> list[str]:
    """All published descriptions."""
    return [text for entry in json.loads(REAL.read_text("utf-8")) for text in entry["captions"]]


def _read(name: str) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads((_HERE / name).read_text("utf-8"))
    return entries


def _pairs(entries: list[dict[str, str]]) -> list[Pair]:
    return [Pair(e["description"], text) for e in entries for text in e["paraphrases"]]
