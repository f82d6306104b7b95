"""Rewrites imported from a file pass the same checks as those of a model."""

import json
from pathlib import Path

import pytest

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
version = "{version}"
gate = "auto"
checks = [{checks}]
identities_per_source = 6
[[sources]]
name = "street"
format = "cuhk_pedes"
annotations = "{annotations}"
images = "{images}"
licence = "CC-BY-4.0"
"""
WITH_PERSON, FORM_ALONE = '"form", "support", "person"', '"form"'


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
    stated = {"annotations": annotations, "images": annotations.parent}
    build.write_text(BUILD.format(**stated, version="0.1.0", checks=WITH_PERSON))

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
    assert "rewrote each description" not in card

    rewrites.write_text(json.dumps({"source": texts[0]}))
    broken = loupe(*run)
    assert broken.exit_code == 2
    assert "rewrites.jsonl, line 1: rewrite is missing" in " ".join(broken.err.split())


def test_other_checks_decide_again_on_what_nobody_looked_at(
    loupe: Loupe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which releases came before changes nothing, also if earlier checks are asked for again."""
    annotations = write_people(
        tmp_path / "street", Granularity.FINE, identities=6, images=1, captions=1
    )
    texts = [one["captions"][0] for one in json.loads(annotations.read_text())]
    rewriter = RuleRewriter(BuiltinRewriter())
    changed = [f"{rewriter.rewrite(one)} There is a red umbrella too." for one in texts[:3]]
    told = [*changed, *map(rewriter.rewrite, texts[3:])]
    rewrites, profile = tmp_path / "rewrites.jsonl", tmp_path / "team.toml"
    pairs = [{"source": one, "rewrite": two} for one, two in zip(texts, told, strict=True)]
    rewrites.write_text("\n".join(map(json.dumps, pairs)))
    profile.write_text(PROFILE.format(path=rewrites))
    build = tmp_path / "build.toml"

    def released(home: str, version: str, checks: str) -> tuple[str, str]:
        monkeypatch.setenv("LOUPE_HOME", str(tmp_path / home))
        stated = {"annotations": annotations, "images": annotations.parent}
        build.write_text(BUILD.format(**stated, version=version, checks=checks))
        done = loupe("run", "build-ufine3c", "--config", str(build), "--profile", str(profile))
        assert done.exit_code == 0, done.err
        release = tmp_path / home / "releases" / f"mine-{version}"
        return (release / "mine.json").read_text(), (release / "README.md").read_text()

    strict = released("strict", "0.3.0", WITH_PERSON)
    lenient = released("lenient", "0.2.0", FORM_ALONE)
    assert (strict[0].count("umbrella too"), lenient[0].count("umbrella too")) == (0, 3)
    released("both", "0.1.0", WITH_PERSON)
    assert released("both", "0.2.0", FORM_ALONE) == lenient
    assert released("both", "0.3.0", WITH_PERSON) == strict
