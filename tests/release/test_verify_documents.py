"""Verification of changed and resealed documents and files of a release."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from release.documents import OF_MANIFEST
from release.files import CROISSANT
from release.verify import verify_release
from schemas.release import DOCUMENTS_VERSION, Manifest
from tests.release.cases import check_on_copies, check_on_every_kind
from tests.release.forging import listable_files, reseal
from tests.release.kinds import Built

DOCUMENTS = (*OF_MANIFEST, CROISSANT)


Kinds = dict[str, Built]


def faults(folder: Path) -> list[tuple[str, str]]:
    return [(one.fault, one.file) for one in verify_release(folder)]


def test_resealing_a_built_release_changes_nothing(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, sound: Built) -> None:
        assert faults(copy) == []
        reseal(copy)
        for path in listable_files(sound.folder):
            assert (copy / path).read_bytes() == (sound.folder / path).read_bytes()
        assert faults(copy) == []

    check_on_every_kind(every_kind, tmp_path, check)


def test_a_missing_document_is_reported(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, path: str) -> None:
        (copy / path).unlink()
        reseal(copy)
        assert faults(copy) == [("file_missing", path)]

    for sound in every_kind.values():
        check_on_copies(sound.folder, tmp_path, DOCUMENTS, check)


def test_documents_of_another_version_are_not_accepted(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, _: Built) -> None:
        with (copy / "README.md").open("a", encoding="utf-8") as card:
            card.write("As it was worded in another version.\n")
        reseal(copy, left={"README.md"})
        assert faults(copy) == [("document_differs", "README.md")]

        def in_another_version(manifest: Manifest) -> Manifest:
            assert manifest.documents_version == DOCUMENTS_VERSION
            return manifest.model_copy(update={"documents_version": DOCUMENTS_VERSION + 1})

        reseal(copy, change=in_another_version, left=DOCUMENTS)
        assert faults(copy) == [("documents_unknown", "manifest.json")]

    check_on_every_kind(every_kind, tmp_path, check)


def test_a_missing_json_file_is_reported(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, sound: Built) -> None:
        path = f"{sound.manifest.dataset}.json"
        (copy / path).unlink()
        reseal(copy)
        assert ("file_missing", path) in faults(copy)

    check_on_every_kind(every_kind, tmp_path, check)


def test_files_with_unknown_names_are_reported(every_kind: Kinds, tmp_path: Path) -> None:
    paths = (
        *("load.py", "data/extra.parquet", "data/train.parquet", "lineage/more.parquet"),
        *("readme.md", "docs/README.md", "data/load.py"),
    )

    def check(copy: Path, _: Built) -> None:
        for path in paths:
            (copy / path).parent.mkdir(exist_ok=True)
            (copy / path).write_bytes(b"print('loaded')\n")
        reseal(copy)
        assert faults(copy) == [("file_unknown", path) for path in sorted(paths)]

    check_on_every_kind(every_kind, tmp_path, check)


def test_documents_of_other_kinds_of_releases_are_reported(
    every_kind: Kinds, tmp_path: Path
) -> None:
    def check(copy: Path, sound: Built) -> None:
        others = {"ATTRIBUTION.md", "leaks.json", "ccd.jsonl"} - set(listable_files(sound.folder))
        assert others
        for path in others:
            (copy / path).write_text("{}\n", "utf-8")
        reseal(copy)
        assert sorted(faults(copy)) == [("file_unknown", path) for path in sorted(others)]

    check_on_every_kind(every_kind, tmp_path, check)


class Forged(NamedTuple):
    """A change of a document."""

    path: str
    change: Callable[[str], str]


def other_licence(text: str) -> str:
    values = json.loads(text)
    values["license"] = ["https://spdx.org/licenses/CC0-1.0"]
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


FORGED = [
    Forged("README.md", lambda text: text.replace("license", "licence", 1)),
    Forged("README.md", lambda text: text + "\nFree for any use.\n"),
    Forged("README.md", lambda text: text[: len(text) // 2]),
    Forged("README.md", lambda text: text.replace("\n", "\r\n")),
    Forged("README.md", lambda text: ""),
    Forged("CITATION.cff", lambda text: text.replace('"', '"Dr ', 1)),
    Forged("words.svg", lambda text: text.replace("<rect", "<script/><rect", 1)),
    Forged("croissant.json", other_licence),
    Forged("croissant.json", lambda text: text.replace('"sha256": "', '"sha256": "0', 1)),
]


def test_changed_documents_are_reported_with_the_first_different_line(
    every_kind: Kinds, tmp_path: Path
) -> None:
    for sound in every_kind.values():
        check_on_copies(sound.folder, tmp_path, FORGED, check_forged)


def check_forged(copy: Path, forged: Forged) -> None:
    path = copy / forged.path
    before = path.read_bytes().decode()
    details = forged.change(before)
    assert details != before
    path.write_bytes(details.encode())
    reseal(copy, left=[forged.path])
    (problem,) = verify_release(copy)
    assert (problem.fault, problem.file) == ("document_differs", forged.path)
    theirs, ours = details.split("\n"), before.split("\n")
    line = next(
        (
            number
            for number, pair in enumerate(zip(theirs, ours, strict=False), 1)
            if len({*pair}) > 1
        ),
        min(len(theirs), len(ours)) + 1,
    )
    assert f"{forged.path}: line {line} " in problem.message


def test_documents_must_match_the_manifest(every_kind: Kinds, tmp_path: Path) -> None:
    def check(copy: Path, _: Built) -> None:
        def other(manifest: Manifest) -> Manifest:
            return manifest.model_copy(update={"version": "9.9.9", "tier": None, "contains": ()})

        reseal(copy, change=other, left=DOCUMENTS)
        found = {file for fault, file in faults(copy) if fault == "document_differs"}
        assert found == {"README.md", "CITATION.cff", "croissant.json"}

    check_on_every_kind(every_kind, tmp_path, check)


def test_a_manifest_whose_documents_cannot_be_generated_is_reported(
    every_kind: Kinds, tmp_path: Path
) -> None:
    def check(copy: Path, _: Built) -> None:
        def with_invalid_histograms(manifest: Manifest) -> Manifest:
            counted = tuple(
                one.model_copy(update={"histogram": ((0, -5), (10, 0))})
                for one in manifest.statistics.granularities
            )
            statistics = manifest.statistics.model_copy(update={"granularities": counted})
            return manifest.model_copy(update={"statistics": statistics})

        reseal(copy, change=with_invalid_histograms, left=DOCUMENTS)
        problems = [one for one in verify_release(copy) if one.file == "README.md"]
        assert [one.fault for one in problems] == ["document_differs"]
        assert "cannot be generated" in problems[0].message

    check_on_every_kind(every_kind, tmp_path, check)
