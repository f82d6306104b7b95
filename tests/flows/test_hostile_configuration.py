"""Fuzz tests of configuration files: each is loaded or refused with a one-line error."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from loupe.annotate.queues import load_queues
from loupe.flows.engine.pipeline import load_build
from loupe.flows.engine.release_facts import release_facts
from loupe.flows.evaluation.training import load_training
from loupe.models.profiles.loader import load_profile
from loupe.schemas.build import CcdBuild, RecosBuild, UFine3CBuild, UFine6926Build
from loupe.schemas.errors import ConfigurationError

PROFILES = Path(__file__).parents[2] / "models" / "profiles"
SOURCE = """
[[sources]]
name = "pedes"
format = "cuhk-pedes"
annotations = "a.json"
images = "images"
"""
TASK = """
[[tasks]]
task = "color"
images = 5
source = "pedes"
"""
VIDEOS = """
[[sources]]
name = "street"
videos = ["a.mp4"]
licence = "CC0-1.0"
"""
HEAD = """
dataset = "mine"
version = "1.0.0"
seed = 3
gate = "sample:0.5"
against = ["other"]
"""
RECOS_HEAD = HEAD.replace('version = "1.0.0"', 'last = "v1"')
QUEUES = """
[steps.rewrites]
policy = "sample:0.5"
overlap = 2
annotators = ["ann"]
[queues.mine-rewrites]
daily_cap = 9
gold_rate = 0.1
"""
RELEASES = """
[all]
licence = "CC0-1.0"
[datasets.mine]
contact = "a@b.example"
[[datasets.mine.creators]]
name = "Ann"
[datasets.mine.permitted_terms]
pedes = "x"
"""
FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "ufine3c": (
        f"{HEAD}identities_per_source = 5\n{SOURCE}",
        partial(load_build, form=UFine3CBuild),
    ),
    "recos": (f"{RECOS_HEAD}{SOURCE}{TASK}", partial(load_build, form=RecosBuild)),
    "ccd": (f"{HEAD}{SOURCE}", partial(load_build, form=CcdBuild)),
    "ufine6926": (
        f"{HEAD}\n{VIDEOS}",
        partial(load_build, form=UFine6926Build),
    ),
    "training": (
        'seed = 3\n[backbone]\ntext_tokens = 77\ncheckpoint = "a.pt"\n[schedule]\nepochs = 2\n',
        lambda path: load_training(str(path)),
    ),
    "queues": (QUEUES, load_queues),
    "releases": (RELEASES, lambda path: release_facts(path, "mine")),
    "profile": (
        (PROFILES / "builtin.toml").read_text(),
        lambda path: load_profile(str(path), {}),
    ),
}
VALUES = (
    "-1", "0", "9" * 30, "9" * 5000, "-9223372036854775809", "1e400", "nan", "true", '""',
    r'"\u0000"', '"../../etc/passwd"', '"/dev/zero"', '"~nobody-here/x"', '"[red]x[/red]"',
    '"a\\u001b[2Jb"', "[]", "[[]]", "{}", "[1, 2]", "1979-05-27", "2020-13-40", "[" * 5000,
    "{a=" * 2000, '"' + "x" * 100_000 + '"', "'", '"""', '"\\ud800"',
)  # fmt: skip
LINES = (
    "unknown = 1", "[unknown]", "[[sources]]", "[all]\n[all]", "sources = 3", "steps = 3",
    "queues = 3", "datasets = []", "[steps]\nrewrites = 1", "[queues]\nmine-rewrites = 1",
    '"\\u0000" = 1', '"a\\nb" = 1', "a.b.c.d.e = 1", "all = 1", "[[all]]", "rewrite = 1",
)  # fmt: skip


def mutated(chance: random.Random, text: str) -> bytes:
    """Return `text` with values, lines or bytes replaced at random."""
    lines = text.splitlines()
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        if equals and chance.random() < 0.7:
            lines[at] = f"{key}= {chance.choice(VALUES)}"
        else:
            lines.insert(at, chance.choice(LINES))
    content = bytearray("\n".join(lines).encode())
    if chance.random() < 0.2:
        content[chance.randrange(len(content))] = chance.choice([0, 0xFF, 0x0D, 0x1B])
    return bytes(content)


def error_message(load: Callable[[], object]) -> str | None:
    """Return the message of a `ConfigurationError`, or None; other exceptions fail the test."""
    try:
        load()
    except ConfigurationError as error:
        return str(error)
    return None


def count_refused(folder: Path, seeds: range) -> int:
    """Load mutated files and return how many were refused."""
    refused = 0
    for name, (text, load) in FILES.items():
        path = folder / f"{name}.toml"
        path.write_text(text)
        load(path)
        for seed in seeds:
            path.write_bytes(mutated(random.Random(f"{name} {seed}"), text))
            message = error_message(partial(load, path))
            if message is not None:
                assert len(message.splitlines()) == 1, (name, seed, message[:300])
                assert len(message) < 2000, (name, seed, message[:300])
                refused += 1
    return refused


def test_mutated_files_are_loaded_or_refused(tmp_path: Path) -> None:
    assert count_refused(tmp_path, range(25)) > 100


@pytest.mark.soak
def test_many_mutated_files_are_loaded_or_refused(tmp_path: Path) -> None:
    assert count_refused(tmp_path, range(25, 1500)) > 5000


@pytest.mark.parametrize("content", [None, "/dev/zero"])
def test_a_link_that_leads_to_no_regular_file_is_refused(
    tmp_path: Path, content: str | None
) -> None:
    """The link leads to a device or to itself."""
    for name, (_, load) in FILES.items():
        path = tmp_path / f"{name}.toml"
        path.symlink_to(path if content is None else content)
        if name in ("queues", "releases") and content is None:
            continue  # these files are optional
        with pytest.raises(ConfigurationError):
            load(path)


def test_overrides_of_a_profile_are_applied_or_refused() -> None:
    for key in ("NAME", "REWRITE", "REWRITE__MAX_CHARACTERS", "REWRITE__X__Y", "", "__", "X\n"):
        for value in ("", "[" * 5000, "9" * 5000, "9" * 30, '"\\u0000"', "nan", "\udcff", "{}"):
            message = error_message(
                partial(load_profile, "builtin", {f"LOUPE_PROFILE__{key}": value})
            )
            assert message is None or len(message.splitlines()) == 1, (key, value[:9])
