"""The commands and TOML files of README and docs, as a reader would use them, page by page.

The pages share a folder with photographs of one's own, as the README describes it. A command that
needs more than this machine has is named in `NOT_RUN` with the reason; it is still parsed, so that
its options exist.
"""

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from benchmarks import reference
from loupe.annotate.queues import load_queues
from loupe.api.loading import load_pipeline
from loupe.db.entities import find
from loupe.db.store import Store
from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import View, draw_pose
from loupe.demo.worlds.people import draw_person_attributes
from loupe.flows.engine.pipeline import load_build
from loupe.flows.engine.release_facts import release_facts
from loupe.flows.evaluation.reproduction import load_reproduction
from loupe.flows.evaluation.training import load_training
from loupe.models.profiles.loader import load_profile
from loupe.schemas.build import Build, CcdBuild, RecosBuild, UFine3CBuild, UFine6926Build
from loupe.schemas.errors import LoupeError
from loupe.schemas.records import Granularity
from loupe.schemas.records import Image as ImageRecord
from loupe.sources.chance import Chance
from tests.flows.conftest import COMMAND
from tests.flows.worlds import own_environment, write_toml
from tests.servers.processes import REPOSITORY

SERVERS = "starts servers or needs them; see the tests marked prefect and label_studio"
KEY = "needs a key or an account"
GPU = "needs a GPU, weights or the network"
DATA = "needs data of others"
LONG = "trains for minutes; see tests/flows/test_training_run.py"
PEOPLE = "needs decisions of people; see test_quality_commands.py"
ELSEWHERE = "is tested as a whole in "
NOT_RUN: dict[str, dict[str, str]] = {
    "README.md": {
        "make ": ELSEWHERE + "CI",
        "loupe run build-ufine3c --config my-photos.toml --profile small": GPU,
        "loupe up": SERVERS, "loupe annotator": SERVERS, "prefect ": SERVERS, "loupe down": SERVERS,
        "loupe explore": ELSEWHERE + "tests/flows/exploring/test_in_browser.py",
    },
    "docs/api-key.md": {"loupe run": KEY, "loupe doctor": KEY},
    "docs/build-files.md": {
        "loupe run build-ufine3c --config ufine3c --profile paper": DATA,
        "loupe run build-ufine3c": ELSEWHERE + "tests/demo/test_builds.py",
    },
    "docs/ccd.md": {"loupe": KEY},
    "docs/cluster.md": {"": "needs a Ray cluster; see tests/flows/test_ray.py"},
    "docs/evaluation.md": {
        "loupe evaluate DIR --embedder open_clip": GPU, "prefect ": SERVERS,
        "loupe import": DATA, "loupe release build ufine6926": DATA,
        "loupe evaluate releases/ufine6926": DATA,
    },
    "docs/explore.md": {
        "loupe explore": ELSEWHERE + "tests/flows/exploring/test_in_browser.py",
        "loupe reject": ELSEWHERE + "tests/flows/exploring/test_deciding.py",
        "loupe similar": ELSEWHERE + "tests/flows/exploring/test_similar.py",
    },
    "docs/export.md": {"HF_TOKEN": KEY, "hf download": KEY, "loupe release verify": KEY},
    "docs/noise-filter.md": {"loupe filter": ELSEWHERE + "test_filter_commands.py"},
    "docs/one-gpu.md": {"uv ": GPU, "vllm": GPU, "loupe run": GPU},
    "docs/profiles.md": {"loupe run": GPU, "loupe judge": ELSEWHERE + "test_judge.py"},
    "docs/index.md": {"loupe demo": ELSEWHERE + "tests/demo/test_builds.py"},
    "docs/start.md": {"make ": ELSEWHERE + "CI"},
    "docs/python.md": {
        "loupe run": ELSEWHERE + "tests/api/test_python_page.py",
        "loupe up": SERVERS, "loupe annotator": SERVERS,
    },
    "docs/team.md": {"": "sets up a server; see tests/services/test_public.py"},
    "docs/recos.md": {
        "loupe run": KEY, "loupe release": KEY, "loupe evaluate": KEY,
    },
    "docs/release-report.md": {"xdg-open": "opens a browser"},
    "docs/releases.md": {
        "loupe release build recos": ELSEWHERE + "test_recos_build.py",
        "loupe release build ufine3c --version 1.0.0 --out releases/ufine3c-1.0.0 --against": DATA,
        "loupe release contamination": DATA,
        "printf": "xxd and jq are not on every machine", "jq": "as above",
        "openssl pkeyutl": "as above",
    },
    "docs/reproduction.md": {"loupe reproduce ufinebench": LONG},
    "docs/review.md": {
        "loupe up": SERVERS, "loupe annotator": SERVERS, "loupe queue push": SERVERS,
        "loupe queue gold": "needs decisions of people; see test_gold_commands.py",
        "loupe queue errors": PEOPLE, "loupe queue audit": PEOPLE, "loupe quality": PEOPLE,
    },
    "docs/scale.md": {"loupe shards rewrite": ELSEWHERE + "test_shards.py"},
    "docs/services.md": {
        "loupe up": SERVERS, "prefect ": SERVERS, "loupe down": SERVERS, "loupe status": SERVERS,
    },
    "docs/sources.md": {"loupe sources sniff s3": ELSEWHERE + "tests/sources/test_remote.py"},
    "docs/training.md": {
        "loupe": LONG, "prefect ": SERVERS, "accelerate": GPU, "torchrun": GPU,
    },
    "docs/verification.md": {"loupe release verify DIR --id": "its id is an example"},
    "docs/video.md": {
        "loupe run": ELSEWHERE + "test_ufine6926_build.py",
        "loupe import videos": ELSEWHERE + "test_video_tracks.py",
        "loupe track street.mp4": ELSEWHERE + "test_track_command.py",
        "loupe track MOT17-02/img1": ELSEWHERE + "test_sequence.py",
    },
    "docs/withdrawals.md": {
        "loupe withdraw images/12.jpg": "asks for a confirmation; see test_withdraw_command.py",
        "loupe release verify": "needs a withdrawal; see test_withdrawn_releases.py",
    },
}  # fmt: skip
"""What is not run, by page and by the beginning of the command, with the reason."""
EXIT_CODES = {"loupe doctor": (0, 1), "loupe queue stats": (0, 1), "loupe release diff": (0, 1)}
"""Commands that report what is missing or differs."""
FIRST = ("README.md", "docs/build-files.md", "docs/releases.md")
PAGES = (
    *FIRST,
    *sorted(
        page
        for one in (REPOSITORY / "docs").glob("*.md")
        if (page := f"docs/{one.name}") not in FIRST
    ),
)
WRITTEN = {"README.md": "my-photos.toml", "docs/start.md": "first.toml"}
"""Pages whose TOML file the reader writes."""
WORDS = {
    "DIR": ".loupe/releases/my-photos-0.1.0",
    "images/12.jpg": "images/1.jpg",
    "[--intervals]": "--intervals",
    "[--json]": "--json",
    "[--distractors]": "--distractors",
    "[KEY]": "",
}
"""Placeholders of the documents and what stands for them."""
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_ASSIGNED = re.compile(r"^([A-Z_]+=\S+ )+")
_NAMED = re.compile(r"`([\w-]+\.toml)`[^`]*$")


class Block(NamedTuple):
    """A fenced block, and the file that the sentence before it names, if any."""

    page: str
    language: str
    text: str
    file: str | None


def blocks_of(page: str, language: str) -> list[Block]:
    """Return the blocks of a page in a language."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    found: list[Block] = []
    for one in _BLOCK.finditer(text):
        named = _NAMED.search(text[max(0, one.start() - 300) : one.start()])
        if one[2] == language:
            found.append(Block(page, language, one[3], named and named[1]))
    return found


def commands_of(block: Block) -> list[str]:
    """Return the commands of a block without their comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    stripped = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
    return [" ".join(line.split()) for line in stripped if line]


def reason_not_to_run(page: str, command: str) -> str | None:
    """Return why a command is not run; the longest beginning counts."""
    beginnings = NOT_RUN.get(page, {})
    forms = (command, _ASSIGNED.sub("", command))
    matching = [one for one in beginnings if any(form.startswith(one) for form in forms)]
    return beginnings[max(matching, key=len)] if matching else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with photographs and descriptions of one's own, and files that pages mention."""
    folder = tmp_path_factory.mktemp("reader")
    write_photographs(folder)
    (readme,) = blocks_of("README.md", "toml")
    for name, dataset in {"my": "my", "my-ufine3c": "my-ufine3c", "ufine3c-own": "ufine3c"}.items():
        text = readme.text.replace('"my-photos"', f'"{dataset}"')
        (folder / f"{name}.toml").write_text(text)
    rng = np.random.default_rng(1)
    for name, rows in {"Q": 6, "G": 12, "T": 60, "I": 12}.items():
        np.save(folder / f"{name}.npy", rng.normal(size=(rows, 8)).astype(np.float32))
    for name, ids in {"q": np.arange(6), "g": np.arange(12) % 6, "t": np.arange(60) % 12}.items():
        np.save(folder / f"{name}.npy", ids)
    np.save(folder / "images.npy", rng.normal(size=(12, 8)).astype(np.float32))
    np.save(folder / "texts.npy", rng.normal(size=(36, 8)).astype(np.float32))
    (folder / "photographs").symlink_to("photos")
    (folder / "images").symlink_to("photos")
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(12)]
    captions = [
        {"id": number, "image_id": number, "caption": f"A person with {number} bags walks."}
        for number in range(12)
    ]
    (folder / "captions.json").write_text(json.dumps({"images": images, "annotations": captions}))
    (folder / "det.txt").write_text("1,-1,10,10,20,50,0.9\n2,-1,11,10,20,50,0.9\n")
    with own_environment(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PWD", str(folder))
        patch.setenv("LOUPE_PREFECT_PORT", "1")  # where no server is
        yield folder


def write_photographs(folder: Path) -> None:
    """Write `photos` and `photos.jsonl`."""
    rng = np.random.default_rng(7)
    (folder / "photos").mkdir()
    lines = []
    for number in range(12):
        pixels = rng.integers(0, 255, (6, 4, 3), np.uint8)
        picture = Image.fromarray(pixels).resize((96, 144), Image.Resampling.NEAREST)  # sharp
        picture.save(folder / "photos" / f"{number}.jpg")
        chance = Chance(Granularity.FINE, number)
        person = draw_person_attributes(chance)
        pose = draw_pose(chance, chance.pick(tuple(View)))
        captions = [describe(person, pose, Granularity.FINE, 0, chance)]
        lines.append(json.dumps({"file_name": f"{number}.jpg", "captions": captions}))
    (folder / "photos.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def samples_of(command: str) -> list[dict[str, Any]] | None:
    """Return the rows of `samples.json` for a command, or None if it needs none."""
    if command.startswith("loupe metrics recos"):
        return [{"image": f"v0/{n}.jpg", "task": "color", "captions": 5} for n in range(12)]
    if command.startswith("loupe metrics ccd"):
        kinds = (None, "Entity Attribute")
        return [
            {"image": f"{n}.jpg", "group": f"{n // 2}", "contrastive_type": kinds[n % 2]}
            for n in range(12)
        ]
    return None


class Reader:
    """Somebody who types the commands of a page."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys

    def follow(self, command: str) -> None:
        """Run a command, and fail if it ends otherwise than its page says."""
        for placeholder, meant in self._words().items():
            command = command.replace(placeholder, meant)
        if samples := samples_of(command):
            (self.folder / "samples.json").write_text(json.dumps(samples))
        for assigned in _ASSIGNED.findall(command):
            self._monkeypatch.setenv(*assigned.strip().split("=", 1))
        first, *words = shlex.split(os.path.expandvars(_ASSIGNED.sub("", command)))
        if first == "export":
            for name, _, value in (word.partition("=") for word in words):
                self._monkeypatch.setenv(name, value)
        elif first == "loupe":
            ended = self.loupe(*words)
            allowed = next(
                (codes for c, codes in EXIT_CODES.items() if command.startswith(c)), (0,)
            )
            assert ended in allowed, f"{command}\n{self._capsys.readouterr().err}"
        elif first != "source":
            subprocess.run(["bash", "-ec", command], check=True, cwd=self.folder)

    def loupe(self, *words: str) -> int:
        """Run `loupe` in this process, and return the exit code."""
        from loupe.flows.cli.main import main

        self._monkeypatch.setattr("sys.argv", ["loupe", *words])
        with pytest.raises(SystemExit) as ended:
            main(COMMAND)
        return int(ended.value.code or 0)

    def _words(self) -> dict[str, str]:
        found = dict(WORDS)
        home = self.folder / ".loupe" / "loupe.db"
        if home.exists():
            store = Store.open(f"sqlite:///{home}")
            image = next(find(store, "my-photos", ImageRecord.kind), None)
            store.close()
            if image is not None:
                found |= {"3e88b0fbb981": image.id[:12], "3f2a81c0": image.id[:12]}
        return found


def test_the_commands_of_all_pages_run_in_order(
    folder: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    """Pages use what earlier ones built, so that this is one test."""
    for page in PAGES:
        with subtests.test(page=page), pytest.MonkeyPatch.context() as patch:
            follow_page(page, Reader(folder, patch, capsys))


def follow_page(page: str, reader: Reader) -> None:
    """Run the commands of a page that this machine can run."""
    if page in WRITTEN:
        for block in blocks_of(page, "toml"):
            assert block.file == WRITTEN[page]
            (reader.folder / block.file).write_text(block.text)
    if page == "docs/releases.md":
        assert reader.loupe("run", "build-ufine3c", "--config", "ufine3c-own.toml") == 0
        assert reader.loupe("run", "build-ufine3c", "--config", "my-ufine3c.toml") == 0
    for block in blocks_of(page, "sh"):
        for command in commands_of(block):
            if reason_not_to_run(page, command) is None:
                reader.follow(command)


def test_no_reason_is_left_over() -> None:
    for page, reasons in NOT_RUN.items():
        commands = [one for block in blocks_of(page, "sh") for one in commands_of(block)]
        found = {reason_not_to_run(page, one) for one in commands}
        assert found >= set(reasons.values()), page


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "sh")])
def test_every_option_in_a_page_exists(page: str) -> None:
    for block in blocks_of(page, "sh"):
        for command in commands_of(block):
            command = _ASSIGNED.sub("", command)
            if command.startswith("loupe "):
                parse(COMMAND, shlex.split(re.sub(r"[\[\]]|'$", "", command)))


def parse(command: Any, words: list[str]) -> None:
    """Parse the options of a command line; unknown ones raise."""
    name, *rest = words
    context = command.make_context(name, list(rest), resilient_parsing=True)
    if hasattr(command, "commands") and rest:
        subname, subcommand, left = command.resolve_command(context, rest)
        if subcommand is not None:
            parse(subcommand, [subname, *left])


def test_the_reference_of_commands_is_up_to_date() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.reference(), "make reference"


def forms_of(folder: Path) -> dict[str, Callable[[Path], object]]:
    """Return what a TOML file can be."""
    builds: tuple[type[Build], ...] = (UFine3CBuild, UFine6926Build, RecosBuild, CcdBuild)
    return {
        **{one.__name__: partial(load_build, form=one) for one in builds},
        "profile": lambda path: load_profile(str(path), {}),
        "hosted profile": lambda path: load_profile(str(completed_profile(path, "hosted")), {}),
        "embedder": lambda path: load_profile(str(within(path, "evaluation.embedders")), {}),
        "queues": load_queues,
        "releases": lambda path: release_facts(path, "ufine3c"),
        "training": lambda path: load_training(str(path)),
        "reproduction": load_reproduction,
        "pipeline": lambda path: load_pipeline(str(path)),
    }


def within(path: Path, table: str) -> Path:
    """Write the content of a file as the only table of an array in a profile, and return it."""
    written = path.with_name("within.toml")
    written.write_text(f"[[{table}]]\n{path.read_text()}")
    return completed_profile(written)


def completed_profile(path: Path, name: str = "builtin") -> Path:
    """Add the keys of a profile that a fragment lacks."""
    values = tomllib.loads(path.read_text())
    base = tomllib.loads((REPOSITORY / f"models/profiles/{name}.toml").read_text())
    return write_toml(path.with_name("profile.toml"), _merged(base, values))


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        is_other = both and value.get("provider", "") != merged[key].get("provider", "")
        merged[key] = _merged(merged[key], value) if both and not is_other else value
    return merged


def completed_build(path: Path) -> Path:
    """Add the gate and the sources that a fragment of a build file lacks."""
    values = tomllib.loads(path.read_text())
    names = {one["source"] for one in values.get("tasks", ()) if "source" in one}
    place = {"format": "image-list", "annotations": "a.txt", "images": "a"}
    sources = [{"name": name, **place} for name in sorted(names)]
    return write_toml(path.with_name("build.toml"), {"gate": "auto", "sources": sources} | values)


BLOCKS = [block for page in PAGES for block in blocks_of(page, "toml")]


@pytest.mark.parametrize("block", BLOCKS, ids=[f"{one.page}-{n}" for n, one in enumerate(BLOCKS)])
def test_every_toml_file_of_the_documents_can_be_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(block.text.replace('sha256 = "…"', f'sha256 = "{64 * "a"}"'))
    (tmp_path / "rewrites.jsonl").write_text("")
    refusals: dict[str, str] = {}
    for name, read in forms_of(tmp_path).items():
        for complete in (lambda one: one, completed_profile, completed_build):
            try:
                read(complete(path))
            except (LoupeError, KeyError, TypeError, ValueError) as error:
                refusals.setdefault(name, str(error))
            else:
                return
    pytest.fail("\n".join(f"{name}: {said}" for name, said in refusals.items()))
