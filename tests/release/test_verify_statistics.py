"""Verification of changed and resealed statistics of a manifest."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from loupe.release.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.release import Manifest
from tests.release.cases import check_on_every_kind
from tests.release.forging import reseal
from tests.release.kinds import Built

Values = dict[str, Any]


Kinds = dict[str, Built]


def increment(name: str) -> Callable[[Values], None]:
    """A change that increments the number at this path."""

    def changed(values: Values) -> None:
        *path, last = name.split(".")
        place: Any = values
        for step in path:
            place = place[int(step) if isinstance(place, list) else step]
        key: Any = int(last) if isinstance(place, list) else last
        place[key] = not place[key] if isinstance(place[key], bool) else place[key] + 1

    return changed


def forge(folder: Path, *changes: Callable[[Values], None]) -> None:
    def changed(manifest: Manifest) -> Manifest:
        values = json.loads(manifest.model_dump_json())
        for change in changes:
            change(values)
        return Manifest.model_validate(values)

    reseal(folder, change=changed)


def messages_of(folder: Path, *, decode: bool) -> list[str]:
    problems = verify_release(folder, decode=decode).problems
    assert {one.fault for one in problems} <= {"statistics_differ"}, problems
    return [one.message for one in problems]


NUMBERS = {
    "statistics.authors.0.1": r"statistics\.authors\.",
    "statistics.styles_per_image.0.1": r"statistics\.styles_per_image",
    "statistics.rewrites.released": r"statistics\.rewrites\.released ",
    "statistics.rewrites.reviewed": r"statistics\.rewrites\.reviewed ",
    "statistics.rewrites.edited": r"statistics\.rewrites\.edited ",
    "statistics.sources.0.identities": r"statistics\.sources\.\S+\.identities ",
    "statistics.sources.0.originals": r"statistics\.sources\.\S+\.originals ",
    "statistics.granularities.0.images": r"statistics\.granularities\.\S+\.images ",
    "statistics.words.count": r"statistics\.words\.count ",
    "demonstration": "demonstration ",
    "unreviewed": "unreviewed ",
}
WORDS = {
    "statistics.vocabulary": r"statistics\.vocabulary ",
    "statistics.words.mean": r"statistics\.words\.mean ",
    "statistics.words.maximum": r"statistics\.words\.maximum ",
    "statistics.granularities.0.words.median": r"statistics\.granularities\.\S+\.median ",
    "statistics.granularities.0.histogram.0.1": r"statistics\.granularities\.\S+\.histogram",
}


def unreported(patterns: Iterable[str], messages: Sequence[str]) -> list[str]:
    """Those of `patterns` that no message reports."""
    return [one for one in patterns if not any(re.search(f"says {one}", m) for m in messages)]


def test_changed_statistics_are_reported(every_kind: Kinds, tmp_path: Path) -> None:
    """All numbers are changed at once; each is named."""

    def check(copy: Path, _: Built) -> None:
        forge(copy, *map(increment, NUMBERS))
        messages = messages_of(copy, decode=False)
        assert unreported(NUMBERS.values(), messages) == [], messages

    check_on_every_kind(every_kind, tmp_path, check)


def test_changed_word_statistics_are_reported_only_with_decode(copy: Path) -> None:
    forge(copy, *map(increment, WORDS))
    assert messages_of(copy, decode=False) == []
    messages = messages_of(copy, decode=True)
    assert len(messages) == len(WORDS)
    assert unreported(WORDS.values(), messages) == [], messages


def test_changed_description_statistics_are_reported(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, sound: Built) -> None:
        made = sound.manifest.statistics.descriptions

        def other(values: Values) -> None:
            counts = dict.fromkeys(("written", "edited", "drafted", "reviewed", "annotators"), 1)
            values["statistics"]["descriptions"] = None if made else counts

        forge(copy, other)
        assert any("says statistics.descriptions" in one for one in messages_of(copy, decode=False))

    with_and_without = {kind: every_kind[kind] for kind in ("plain", "street")}
    check_on_every_kind(with_and_without, tmp_path, check)


def test_changed_description_counts_are_reported(every_kind: Kinds, tmp_path: Path) -> None:
    counts = [
        f"statistics.descriptions.{name}"
        for name in ("written", "edited", "drafted", "reviewed", "annotators")
    ]

    def check(copy: Path, sound: Built) -> None:
        assert sound.manifest.statistics.descriptions is not None
        forge(copy, *map(increment, counts))
        messages = messages_of(copy, decode=False)
        assert unreported((f"{one} " for one in counts), messages) == [], messages

    check_on_every_kind({"street": every_kind["street"]}, tmp_path, check)


def test_missing_models_in_the_manifest_are_reported(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, sound: Built) -> None:
        forge(copy, lambda values: values.update(models=[]))
        models = {f"{one.name}@{one.revision}" for one in sound.manifest.models}
        authors = {author for author, _ in sound.manifest.statistics.authors}
        messages = [
            one.message for one in verify_release(copy).problems
        ]  # calls in the lineage differ as well
        for model in models & authors:
            assert any(f"does not list the model {model}" in one for one in messages)
        assert read_manifest(copy).models == ()

    check_on_every_kind(every_kind, tmp_path, check)
