"""Runs of a paper's build with other settings than the run before."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.api.reading import open_release
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, find
from loupe.db.store import Store
from loupe.schemas.records import Granularity, Rewrite
from tests.flows.command_line import Finished, Loupe
from tests.flows.worlds import write_people, write_toml
from tests.servers.counting_server import (
    CountingServer,
    completion_of,
    counting_server,
    prompt_text,
)

MODELS = ("strict", "lax", "writer", "other-writer")


def between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Rewrite or judge; at a high temperature, write something else of every second text."""
    text = prompt_text(request)
    if request["model"] in ("strict", "lax"):
        objects = request["model"] == "strict" and len(between(text, "rewrite")) % 4 == 0
        added = ["a red umbrella"] if objects else []
        return completion_of(request, json.dumps({"source_facts": [], "added": added}))
    description = between(text, "description")
    is_other = request["temperature"] > 0.9 and sum(description.encode()) % 2
    start = "This shows" if is_other or request["model"] == "other-writer" else "One can see"
    rewrite = f"{start} {description[0].lower()}{description[1:]}"
    return completion_of(request, json.dumps({"rewrite": rewrite}))


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server(complete=answer) as server:
        server.listed = [{"id": name} for name in MODELS]
        yield server


class Builds:
    """Builds of one source of people, in homes and with profiles of choice."""

    def __init__(self, loupe: Loupe, server: CountingServer, folder: Path) -> None:
        self._loupe = loupe
        self._server = server
        self._folder = folder
        images = folder / "one"
        self._source = {
            "name": "one",
            "format": "cuhk-pedes",
            "granularity": "coarse",
            "annotations": write_people(
                images, Granularity.COARSE, identities=6, images=2, captions=1
            ),
            "images": images,
            "licence": "CC0-1.0",
        }

    def model(self, name: str, **options: object) -> dict[str, object]:
        return {
            "provider": "openai",
            "name": name,
            "revision": "1",
            "base_url": self._server.base_url,
            **options,
        }

    def run(self, version: str, **profile: object) -> Finished:
        """Build a version."""
        build = {
            "dataset": "people",
            "version": version,
            "gate": "auto",
            "sources": [self._source],
        }
        config = write_toml(self._folder / "build.toml", build)
        values = {"description": "of a test", "judge": False, **profile}
        written = write_toml(self._folder / "profile.toml", values)
        return self._loupe("run", "build-ufine3c", "--config", config, "--profile", written)

    def release(self, home: Path, version: str, **profile: object) -> list[str]:
        """Build a version, and return its rows and statistics."""
        built = self.run(version, **profile)
        assert built.exit_code == 0, built.err
        release = open_release(home / "releases" / f"people-{version}")
        rows = sorted(json.dumps(row, sort_keys=True, default=str) for row in release.rows())
        statistics = release.manifest.statistics
        return [*rows, *(f"{name}: {value}" for name, value in statistics)]


@pytest.fixture
def builds(loupe: Loupe, server: CountingServer, tmp_path: Path) -> Builds:
    return Builds(loupe, server, tmp_path)


def test_a_build_has_the_rows_that_its_settings_alone_lead_to(
    builds: Builds, loupe: Loupe, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a gate decided alone is decided again, and texts of other models do not count."""
    writer, other = builds.model("writer"), builds.model("other-writer")
    strict, lax = ({"model": builds.model(name)} for name in ("strict", "lax"))
    profiles: dict[str, dict[str, object]] = {
        "0.1.0": {"rewrite": {"models": [writer]}, "judge": strict},
        "0.2.0": {"rewrite": {"models": [writer]}, "judge": lax},
        "0.3.0": {"rewrite": {"models": [other, writer]}},
        "0.4.0": {"rewrite": {"models": [builds.model("writer", sampling={"temperature": 1.0})]}},
        "0.5.0": {"rewrite": {"models": [writer]}, "judge": strict},
    }
    changed: dict[str, list[str]] = {}
    for version, of in profiles.items():
        if version == "0.4.0":
            for checks in ({"language": "de"}, {"near_identical_similarity": 0.5}):
                refused = builds.run(version, faithfulness=checks, **profiles["0.1.0"])
                assert refused.exit_code in (1, 2), refused.err
        changed[version] = builds.release(home, version, **of)
    assert loupe("store", "check").exit_code == 0
    for version, of in profiles.items():
        fresh = tmp_path / f"home-{version}"
        monkeypatch.setenv("LOUPE_HOME", str(fresh))
        assert changed[version] == builds.release(fresh, version, **of), version
    assert len({tuple(rows) for rows in changed.values()}) == len(changed) - 1


def test_a_text_that_other_settings_lead_to_as_well_keeps_the_decision_of_a_person(
    builds: Builds, loupe: Loupe, home: Path, home_store: Store
) -> None:
    """And texts of an image that was rejected do not come back."""
    cold = {"rewrite": {"models": [builds.model("writer")]}}
    warm = {"rewrite": {"models": [builds.model("writer", sampling={"temperature": 1.0})]}}
    builds.release(home, "0.1.0", **cold)
    of_cold = {one.id for one in find(home_store, "people", Rewrite.kind)}
    builds.release(home, "0.2.0", **warm)
    rewrites = list(find(home_store, "people", Rewrite.kind))
    states = {one.id: one.state for one in rewrites}
    inactive = {id_ for id_, state in states.items() if state == "inactive"}
    assert set() < inactive < of_cold, "some texts are the same"
    shared = min(of_cold - inactive)
    with home_store.write() as connection:
        person = AgentRef("person", "reviewer-ann", "1")
        append_decisions(connection, [NewDecision(shared, "reject", person)])
    hidden, *_ = (one for one in rewrites if one.id in inactive)
    rejected = loupe("reject", "people", str(hidden.group), "--reason", "blurred", "--yes")
    assert rejected.exit_code == 0, rejected.err
    rows = "".join(builds.release(home, "0.3.0", **cold))
    states = {one.id: one.state for one in find(home_store, "people", Rewrite.kind)}
    assert states[shared] == "rejected"
    accepted = {id_ for id_, state in states.items() if state == "accepted"}
    assert accepted == of_cold - {hidden.id, shared}
    assert {id_ for id_ in states if id_ in rows} == accepted
