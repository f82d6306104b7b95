"""Without an extra everything else works, and what needs it says so in one sentence."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from loupe.schemas.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITHOUT = """
import importlib, pkgutil, sys
for name in ("av", "aiohttp", "protego", "googleapiclient", "yarl", "matplotlib"):
    sys.modules[name] = None  # as if it were not installed
for module in pkgutil.walk_packages(importlib.import_module("loupe").__path__, "loupe."):
    left_out = ("loupe.sources.web.", "migrations.", ".network", ".kernels", "__main__")
    if not any(part in module.name for part in left_out):
        importlib.import_module(module.name)

from pathlib import Path
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.errors import UsageError
from loupe.schemas.image_search import DownloadSettings
from loupe.sources.rendered import FontShelf
from loupe.sources.video.reader import opened_container
from loupe.sources.web import open_downloader

video = Path(sys.argv[1])
source = VideoSourceSpec(name="street", videos=(str(video),), licence="CC0-1.0")
pipeline = ufine6926_pipeline()
finding, *_ = pipeline.checks(UFine6926Build(sources=(source,)), load_profile("builtin"))
print(finding.detail, finding.remedy)
for needs in (
    lambda: opened_container(str(video), video.name).__enter__(),  # in another process, usually
    lambda: open_downloader(DownloadSettings()),
    lambda: FontShelf().font("STIX", 12),
):
    try:
        needs()
    except UsageError as error:
        print(error)
"""


def test_what_needs_a_missing_extra_names_it_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "walk.mp4").write_bytes(b"not opened")
    command = [sys.executable, "-c", WITHOUT, str(tmp_path / "walk.mp4")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    named = [re.findall(r"'\.\[(\w+)\]'$", line) for line in done.stdout.splitlines()]
    assert named == [["video"], ["video"], ["web"], ["render"]], done.stdout


def test_every_extra_is_checked_and_locked() -> None:
    extras = set(PROJECT["optional-dependencies"])
    assert set(EXTRAS) == extras
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"--extra (\w+)", makefile)) == extras - {"gpu"}
