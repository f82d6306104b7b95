"""Preflight checks of a build, before any request is sent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from sqlalchemy import select

from loupe.db.store import Store
from loupe.db.tables import ModelCall
from loupe.release.format.files import CARD
from loupe.release.format.manifest import read_manifest
from loupe.schemas.chat import ServedModel
from loupe.schemas.records import Granularity
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.rendered import write_rendered_collection
from tests.flows.command_line import Finished, Loupe
from tests.flows.worlds import write_people, write_toml
from tests.servers.counting_server import CountingServer, Fault, counting_server


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server() as running:
        yield running


class Project:
    """A build file and a profile, valid unless a test changes them."""

    def __init__(self, loupe: Loupe, folder: Path, server: CountingServer) -> None:
        self.loupe = loupe
        self.folder = folder
        people = folder / "street"
        annotations = write_people(people, Granularity.FINE, identities=2, images=1, captions=1)
        self.source: dict[str, Any] = {
            "name": "street",
            "format": "cuhk-pedes",
            "annotations": annotations,
            "images": people,
            "permitted_by": "drawn here",
        }
        self.model: dict[str, Any] = {
            "provider": "openai",
            "name": "counting",
            "revision": "1",
            "base_url": server.base_url,
        }
        self.prompt = "rewrite_description"
        self.gate = "auto"

    def run(self, *options: str) -> Finished:
        """Run `loupe run` with these files."""
        config = write_toml(
            self.folder / "build.toml", {"gate": self.gate, "sources": [self.source]}
        )
        rewrite = {"prompt": self.prompt, "models": [self.model]}
        values = {"description": "d", "judge": False, "rewrite": rewrite}
        profile = write_toml(self.folder / "profile.toml", values)
        return self.loupe(
            "run", "build-ufine3c", "--config", config, "--profile", profile, *options
        )

    def failed_checks(self) -> str:
        """Return the details of the failed checks, and assert that they stop a run, too."""
        checked = self.run("--check", "--json")
        assert checked.exit_code == 1
        failed = [one for one in checked.json if one["verdict"] != "ok"]
        stopped = self.run()
        assert stopped.exit_code == 2
        assert all(one["detail"] in stopped.err for one in failed)
        return " ".join(one["detail"] for one in failed)


@pytest.fixture
def project(loupe: Loupe, tmp_path: Path, server: CountingServer) -> Project:
    return Project(loupe, tmp_path, server)


def test_a_valid_build_passes_the_checks(project: Project, server: CountingServer) -> None:
    checked = project.run("--check")
    assert checked.exit_code == 0, checked.err
    assert "model counting@1" in checked.out
    assert server.ledger.summary()["total"] == 0


def test_a_build_that_asks_people_without_a_desk_says_so_first_and_waits(
    project: Project, server: CountingServer
) -> None:
    project.gate = "required"
    checked = project.run("--check", "--json")
    assert checked.exit_code == 1
    (people,) = [one for one in checked.json if one["verdict"] != "ok"]
    assert "Label Studio is not running" in people["detail"]
    refused = project.run("--wait")
    assert refused.exit_code == 2
    assert people["detail"] in refused.err
    assert server.ledger.summary()["total"] == 0

    waits = project.run("--json")
    assert waits.exit_code == 0, waits.err
    assert waits.err.index(people["detail"]) < waits.err.index("rewrite counting")
    assert waits.json["waiting"] > 0
    assert waits.json["release"] is None
    paid = server.ledger.summary()["total"]
    project.gate = "auto"
    assert project.run("--json").json["release"]
    assert server.ledger.summary()["total"] == paid


def test_a_folder_without_any_of_the_images_is_named_before_they_are_imported(
    project: Project,
) -> None:
    project.source["images"] = project.folder
    assert f"none of its images is in {project.folder}, such as " in project.failed_checks()
    project.source["images"] = project.source["annotations"]
    assert "is no folder of images" in project.failed_checks()
    assert project.loupe("quarantine", "street").exit_code == 2  # nothing was imported


def test_a_prompt_without_a_required_field_is_named(
    project: Project, server: CountingServer
) -> None:
    own = project.folder / "own.md"
    own.write_text("---\nid: own\n---\nSay it again: {{ description }}\n")
    project.prompt = str(own)
    assert "own.md: front matter: version is missing" in project.failed_checks()
    assert server.ledger.summary()["total"] == 0


def test_a_model_that_is_not_served_is_named_with_those_that_are(
    project: Project, server: CountingServer
) -> None:
    project.model["name"] = "count"
    assert "does not serve it; it serves counting" in project.failed_checks()
    assert server.ledger.summary()["total"] == 0


def test_a_context_length_that_is_too_short_is_named(
    project: Project, server: CountingServer
) -> None:
    server.listed = [{"id": "counting", "max_model_len": 1536}]
    assert "takes 1,536 tokens in all" in project.failed_checks()

    project.model["launch"] = {"architecture": "Tiny", "flags": ["--max-model-len", "1536"]}
    (wrong,) = [one for one in project.run("--check", "--json").json if one["verdict"] != "ok"]
    assert wrong["remedy"].count("--max-model-len") == 1
    assert "1536" not in wrong["remedy"]


def test_server_information_about_a_model_is_released(
    project: Project, server: CountingServer, home_store: Store
) -> None:
    listed = {"id": "counting", "root": "/srv/Counting-7B", "owned_by": "us", "max_model_len": 8192}
    server.listed = [{**listed, "created": 1_763_900_000, "permission": []}]
    folder = Path(project.run("--json").json["release"])
    (model,) = read_manifest(folder).models
    assert model.served == (ServedModel(**listed | {"root": "…/Counting-7B"}),)
    assert "serves counting, loaded from …/Counting-7B, owned by us, of 8,192 tokens." in (
        folder / CARD
    ).read_text("utf-8")
    assert project.loupe("release", "verify", folder).exit_code == 0
    with home_store.read() as connection:
        stored = set(connection.execute(select(ModelCall.served)).scalars())
    assert stored == {ServedModel(**listed, created=1_763_900_000).model_dump_json()}


def test_a_server_that_lists_no_models_is_no_error(
    project: Project, server: CountingServer
) -> None:
    server.listed = None
    built = project.run("--json")
    assert built.exit_code == 0, built.err
    assert read_manifest(Path(built.json["release"])).models[0].served == ()


def test_an_unreachable_server_is_a_warning_if_all_answers_are_stored(
    project: Project, server: CountingServer
) -> None:
    assert project.run().exit_code == 0
    project.model["base_url"] = "http://127.0.0.1:1/v1"
    again = project.run()
    assert again.exit_code == 0, again.err
    assert "does not answer" in again.err


def test_a_server_that_only_failed_has_not_answered(
    project: Project, server: CountingServer, home: Path
) -> None:
    server.ledger.add_faults(Fault("content", text="", finish_reason="content_filter", times=9))
    assert project.run().exit_code == 1
    server.shutdown()
    server.server_close()
    gone = project.run()
    assert gone.exit_code == 2
    assert "the run cannot start, and no model was called" in gone.err
    assert not (home / "releases").exists()


def test_doctor_checks_the_profile_that_is_named(
    loupe: Loupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = loupe("doctor", "--profile", "hosted").out
    assert "profile hosted" in found
    assert "OPENAI_API_KEY" in found


def test_videos_that_are_not_there_are_named(loupe: Loupe, tmp_path: Path) -> None:
    source = {"name": "street", "videos": "clips/*.mp4", "licence": "CC0-1.0"}
    build = {"gate": "auto", "descriptions_gate": "required", "drawn": True, "sources": [source]}
    config = write_toml(tmp_path / "build.toml", build)
    checked = loupe("run", "build-ufine6926", "--config", config, "--check")
    assert checked.exit_code == 1
    assert "clips/*.mp4' names no files" in checked.out


def test_auto_is_not_advised_where_only_people_can_describe(loupe: Loupe, tmp_path: Path) -> None:
    (tmp_path / "a.avi").write_bytes(b"a video")
    source = {"name": "street", "videos": "a.avi", "licence": "CC0-1.0"}
    build = {"gate": "auto", "descriptions_gate": "required", "sources": [source]}
    config = write_toml(tmp_path / "build.toml", build)
    for profile, may_be_auto in (("builtin", False), ("hosted", True)):
        options = ("--config", config, "--profile", profile, "--check")
        checked = loupe("run", "build-ufine6926", *options)
        assert "Label Studio is not running" in checked.out
        assert ('write "auto"' in checked.out) == may_be_auto


def test_a_path_that_is_not_there_names_its_key(loupe: Loupe, tmp_path: Path) -> None:
    (tmp_path / "town.txt").write_text("a.jpg\n")
    source = {**PHOTOS, "images": "fotos", "licence": "CC0-1.0"}
    config = write_toml(tmp_path / "build.toml", {"gate": "auto", "sources": [source]})
    refused = " ".join(loupe("run", "build-ufine3c", "--config", config).err.split())
    assert "fotos fix: correct images of the source" in refused
    misspelt = {**source, "imges": "town"}
    config = write_toml(tmp_path / "build.toml", {"gate": "auto", "sources": [misspelt]})
    refused = " ".join(loupe("run", "build-ufine3c", "--config", config).err.split())
    assert "[[sources]] 'photos': unknown key 'imges'; did you mean 'images'?" in refused


PHOTOS = {"name": "photos", "format": "image-list", "images": "town", "annotations": "town.txt"}
DRAWN = {"task": "numerical calculation", "images": 12}
SEEN = {"task": "scene", "source": "photos", "images": 4}
IMPOSSIBLE: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "a photograph that the built-in captioner cannot see": (
        "build-recos", "builtin", {"sources": [PHOTOS], "tasks": [DRAWN, SEEN]},
        ("only drawn stills, not photographs",),
    ),
    "as many images as a caption is compared with": (
        "build-recos", "builtin", {"tasks": [DRAWN | {"images": 10}]},
        ("v0 would have 10 images", "compared with 10 others"),
    ),
    "more images than the source has": (
        "build-recos", "hosted", {"sources": [PHOTOS], "tasks": [SEEN | {"images": 50}]},
        ("v0 would have 3 images",),
    ),
    "the paper's temperature": (
        "build-recos", "paper", {"tasks": [DRAWN]},
        ("no caption would pass", "eta from about 0.99", "nearly even"),
    ),
    "sign texts that no built-in model writes": (
        "build-recos", "builtin",
        {"tasks": [{"task": "text translation", "images": 12, "further_pairs": 5}]},
        ("further_pairs = 5 needs a model that writes texts",),
    ),
    "photographs that built-in models cannot tell apart": (
        "build-ccd", "builtin", {"sources": [PHOTOS]}, ("only drawn stills, not photographs",),
    ),
    "a language that built-in models do not write": (
        "build-ccd", "builtin", {"second_language": "zh", "sources": [PHOTOS]},
        ("English only, not 'zh'",),
    ),
    "people that the built-in describer cannot see": (
        "build-ufine6926", "builtin", {"sources": [{"name": "street", "videos": "a.avi"}]},
        ("can only describe drawn people",),
    ),
    "a comparison with a dataset that is not there": (
        "build-recos", "builtin", {"tasks": [DRAWN], "against": ["nowhere"]},
        ("against", "'nowhere' is neither a folder nor a dataset"),
    ),
    "one video for two splits": (
        "build-ufine6926", "builtin",
        {"descriptions_gate": "required", "sources": [{"name": "street", "videos": "a.avi"}]},
        ("have one video", "from which the test set can come"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_succeed_fails_the_check(loupe: Loupe, tmp_path: Path, case: str) -> None:
    (tmp_path / "town").mkdir()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        Image.new("RGB", (32, 32)).save(tmp_path / "town" / name)
    (tmp_path / "town.txt").write_text("a.jpg\nb.jpg\nc.jpg\n")
    (tmp_path / "a.avi").write_bytes(b"a video")
    flow, profile, values, said = IMPOSSIBLE[case]
    if "sources" in values:
        sources = [{**one, "licence": "CC0-1.0"} for one in values["sources"]]
        values = {**values, "sources": sources}
    config = write_toml(tmp_path / "build.toml", {"gate": "auto", **values})
    checked = loupe("run", flow, "--config", config, "--profile", profile, "--check")
    assert checked.exit_code == 1
    assert all(part in checked.out for part in said), checked.out


@pytest.mark.parametrize("flow", ["build-ufine3c", "build-ufine6926", "build-recos", "build-ccd"])
def test_every_demonstration_passes_its_check(loupe: Loupe, flow: str) -> None:
    assert loupe("run", flow, "--check").exit_code == 0


def test_pictures_of_known_truth_pass_the_check_of_tasks_alone(
    loupe: Loupe, tmp_path: Path
) -> None:
    write_rendered_collection(tmp_path / "boards", RetrievalTask.CALCULATION, 7, 12)
    source = {"name": "boards", "format": "rendered", "licence": "CC0-1.0"}
    source |= {"annotations": "boards/truths.jsonl", "images": "boards"}
    task = DRAWN | {"source": "boards"}
    values = {"gate": "auto", "last": "v0", "sources": [source], "tasks": [task]}
    config = write_toml(tmp_path / "build.toml", values)
    checked = loupe("run", "build-recos", "--config", config, "--check")
    assert checked.exit_code == 0, checked.out
    values = {"gate": "auto", "sources": [source]}
    config = write_toml(tmp_path / "build.toml", values)
    refused = loupe("run", "build-ufine3c", "--config", config, "--check")
    assert "no format is called 'rendered'" in refused.out
