"""Rewrites imported from a file pass the same checks as those of a model."""

import json
from pathlib import Path

from loupe.demo.composer.rewriter import RuleRewriter
from loupe.schemas.profile import BuiltinRewriter
from loupe.schemas.records import Granularity
from tests.flows.command_line import Loupe
from tests.flows.worlds import write_people

PROFILE = """
description = "Rewrites of a team."
[[rewrite.models]]
provider = "file"
name = "our-team"
path = "{path}"
"""
BUILD = """
dataset = "mine"
gate = "auto"
identities_per_source = 6
[[sources]]
name = "street"
format = "cuhk_pedes"
annotations = "{annotations}"
images = "{images}"
licence = "CC-BY-4.0"
"""


def test_a_file_of_rewrites_becomes_a_release(loupe: Loupe, tmp_path: Path) -> None:
    annotations = write_people(
        tmp_path / "street", Granularity.FINE, identities=6, images=1, captions=1
    )
    texts = [one["captions"][0] for one in json.loads(annotations.read_text())]
    rewriter = RuleRewriter(BuiltinRewriter())
    pairs = [{"source": f"  {one}\n", "rewrite": rewriter.rewrite(one)} for one in texts[1:]]
    rewrites, profile = tmp_path / "rewrites.jsonl", tmp_path / "team.toml"
    rewrites.write_text("\n".join(map(json.dumps, pairs)))
    profile.write_text(PROFILE.format(path=rewrites))
    build = tmp_path / "build.toml"
    build.write_text(BUILD.format(annotations=annotations, images=annotations.parent))

    run = ("run", "build-ufine3c", "--config", str(build), "--profile", str(profile))
    first = loupe(*run)
    assert first.exit_code == 0, first.err
    [missing] = loupe("quarantine", "mine", "--json").json["records"]
    assert missing["reason"] == "cannot_answer"
    assert "rewrites.jsonl has 0 rewrites of this description" in missing["detail"]
    [release] = (tmp_path / "home" / "releases").iterdir()
    assert loupe("release", "verify", str(release)).exit_code == 0
    card = (release / "README.md").read_text()
    assert "our-team@1" in card
    assert "Rewrites of 1 author were imported from a file" in card
    assert "to rewrite in other words" not in card

    rewrites.write_text(json.dumps({"source": texts[0]}))
    broken = loupe(*run)
    assert broken.exit_code == 2
    assert "rewrites.jsonl, line 1: rewrite is missing" in " ".join(broken.err.split())
