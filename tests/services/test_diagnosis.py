import http.server
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from loupe.db.reviews import add_annotator
from loupe.db.store import Store
from loupe.models.profiles.loader import load_profile, validate_profile
from loupe.models.profiles.settings import load_settings
from loupe.schemas.embedding import TransformersEmbedder
from loupe.schemas.profile import Profile, VllmChat
from loupe.services.diagnosis import (
    Finding,
    Verdict,
    check_models,
    check_specs,
    diagnose,
    gpu_lack,
    keys_sent,
    specs_of,
)
from loupe.services.label_studio import NAME
from loupe.services.process import free_port


class ModelServer(http.server.BaseHTTPRequestHandler):
    """A server that lists its models only to clients with the key."""

    key: ClassVar[str] = "sesame"

    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {self.key}"
        is_page = self.path == "/models"
        self.send_response(200 if is_page or (allowed and self.path == "/v1/models") else 401)
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>" if is_page else b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # name of the base class
        """Log nothing."""


@pytest.fixture
def base_url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), ModelServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def profile_with(**model: object) -> Profile:
    models = [{"name": "org/model", "revision": "main", **model}]
    return validate_profile({"name": "p", "description": "d", "rewrite": {"models": models}})


def check(**model: object) -> Finding:
    finding, *_ = check_models(profile_with(**model))
    return finding


def test_nothing_is_missing_for_the_built_in_profile(tmp_path: Path) -> None:
    findings = diagnose(load_settings(home=tmp_path))
    assert [finding for finding in findings if finding.verdict is Verdict.LACKING] == []
    subjects = [finding.subject for finding in findings]
    assert {"profile builtin", "server label-studio", "extra gpu", "uv"} <= {*subjects}


def test_every_missing_component_has_a_remedy(tmp_path: Path) -> None:
    findings = diagnose(load_settings(home=tmp_path, environments=tmp_path))
    missing = [finding for finding in findings if finding.verdict is not Verdict.OK]
    assert {"server prefect-server", "environment label-studio"} <= {one.subject for one in missing}
    assert all(finding.remedy for finding in missing)


def test_an_unreachable_ray_cluster_is_reported(tmp_path: Path) -> None:
    def found(address: str) -> Finding:
        findings = diagnose(load_settings(home=tmp_path, engine="ray", ray_address=address))
        return next(one for one in findings if one.subject == "engine ray")

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert found(address).verdict is Verdict.OK
    assert found(address).verdict is Verdict.LACKING
    assert "cannot be reached" in found(address).detail
    assert found("nowhere").verdict is Verdict.LACKING


def test_an_unknown_profile_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    findings = diagnose(load_settings(home=tmp_path, profile="nonsense"))
    (lacking,) = [finding for finding in findings if finding.verdict is Verdict.LACKING]
    assert "'nonsense'" in lacking.detail
    assert "builtin" in lacking.detail


def test_an_unreachable_model_server_is_reported_with_its_start_command() -> None:
    port = free_port()
    finding = check(provider="openai", base_url=f"http://127.0.0.1:{port}/v1")
    assert finding.verdict is Verdict.LACKING
    assert finding.detail == f"http://127.0.0.1:{port}/v1 does not answer (ConnectError)"
    assert finding.remedy == f"vllm serve org/model --host 127.0.0.1 --port {port}"


def test_a_revision_that_may_change_is_named_and_a_commit_is_served(
    monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    monkeypatch.setenv("MODEL_API_KEY", ModelServer.key)

    def found(revision: str, address: str) -> Finding:
        key = "MODEL_API_KEY"
        model = {"base_url": address, "api_key_variable": key, "revision": revision}
        return check(provider="openai", **model)

    commit = "8adb042d524ecd5c26d3e3ba0e3fbcf7e2d0864c"
    assert "revision 'main' is not pinned" in found("main", base_url).detail
    assert found("main", base_url).verdict is Verdict.OK
    assert "pinned" not in found(commit, base_url).detail
    absent = f"http://127.0.0.1:{free_port()}/v1"
    assert f"serve org/model --revision {commit} --host" in found(commit, absent).remedy
    assert "--revision" not in found("main", absent).remedy


def test_an_unset_key_variable_is_reported(monkeypatch: pytest.MonkeyPatch, base_url: str) -> None:
    for value in ("", "…"):  # the remedy pasted as it is
        monkeypatch.setenv("MODEL_API_KEY", value)
        finding = check(provider="openai", base_url=base_url, api_key_variable="MODEL_API_KEY")
        assert (finding.verdict, finding.remedy) == (Verdict.LACKING, "export MODEL_API_KEY=…")


def test_a_refused_key_is_distinguished_from_an_accepted_one(
    monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    monkeypatch.setenv("MODEL_API_KEY", "wrong")
    refused = check(provider="openai", base_url=base_url, api_key_variable="MODEL_API_KEY")
    assert refused.verdict is Verdict.LACKING
    assert "status 401" in refused.detail
    assert "wrong" not in refused.model_dump_json()
    monkeypatch.setenv("MODEL_API_KEY", ModelServer.key)
    accepted = check(provider="openai", base_url=base_url, api_key_variable="MODEL_API_KEY")
    assert accepted.verdict is Verdict.OK
    page = check(
        provider="openai", base_url=base_url.removesuffix("/v1"), api_key_variable="MODEL_API_KEY"
    )
    assert (page.verdict, "base_url" in page.remedy) == (Verdict.LACKING, True)


def test_keys_are_named_with_the_hosts_that_get_them() -> None:
    assert keys_sent(specs_of(load_profile("hosted"))) == [
        "OPENAI_API_KEY is sent to api.openai.com"
    ]


def test_a_profile_cannot_read_other_variables(
    monkeypatch: pytest.MonkeyPatch, base_url: str, subtests: pytest.Subtests
) -> None:
    for variable in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "LOUPE_SIGNING_KEY", "X_API_KEY_2"):
        with subtests.test(variable=variable):
            monkeypatch.setenv(variable, ModelServer.key)
            model = {"provider": "openai", "base_url": base_url, "api_key_variable": variable}
            monkeypatch.delenv("LOUPE_WORKER_VARIABLES", raising=False)
            finding = check(**model)
            assert finding.verdict is Verdict.LACKING
            assert f"{variable}, which a profile may read only if" in finding.detail
            monkeypatch.setenv("LOUPE_WORKER_VARIABLES", f"OTHER,{variable}")
            assert check(**model).verdict is Verdict.OK


def test_the_same_finding_on_models_that_differ_only_in_sampling_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    findings = [one for one in check_models(load_profile("hosted")) if "gpt" in one.subject]
    assert len({one.subject for one in findings}) == len(findings) == 2


def test_a_missing_checkpoint_is_reported_with_the_setting_for_its_path() -> None:
    profile = load_profile("paper")
    checkpoint = Path("somewhere/fairmot.pth")
    detector = profile.tracking.detector.model_copy(update={"checkpoint": checkpoint})
    tracking = profile.tracking.model_copy(update={"detector": detector})
    findings = list(check_models(profile.model_copy(update={"tracking": tracking})))
    (finding,) = [one for one in findings if "fairmot" in one.subject]
    assert finding.verdict is Verdict.ABSENT  # needed only for videos
    assert str(checkpoint) in finding.detail
    assert "LOUPE_PROFILE__TRACKING__DETECTOR__CHECKPOINT" in finding.remedy


def findings_of_embedders(*embedders: dict[str, object]) -> list[Finding]:
    values = load_profile("builtin").model_dump(mode="json")
    profile = validate_profile({**values, "evaluation": {"embedders": embedders}})
    found = list(check_models(profile))  # the last is the embedder of [captioning]
    return found[-len(embedders) - 1 : -1]


def test_missing_parts_of_embedders_are_reported_as_absent(tmp_path: Path) -> None:
    builtin, clip, cfam, precomputed = findings_of_embedders(
        {"provider": "builtin"},
        {"provider": "open_clip", "name": "ViT-B-16", "revision": "openai"},
        {"provider": "cfam", "checkpoint": str(tmp_path / "trained")},
        {"provider": "precomputed", "name": "x", "images": __file__, "texts": __file__},
    )
    assert (builtin.verdict, builtin.detail) == (Verdict.OK, "built in")
    assert (clip.verdict, clip.subject) == (Verdict.OK, "model ViT-B-16@openai")
    assert cfam.verdict is Verdict.ABSENT
    assert str(tmp_path / "trained" / "model.safetensors") in cfam.detail
    assert precomputed.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("name", "message"),
    [("weights", "write './weights' if it is meant"), ("./other", "other does not exist")],
)
def test_a_build_lacks_an_embedder_whose_folder_is_not_there(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    spec = TransformersEmbedder(provider="transformers", name=name, revision="1")
    (finding,) = check_specs([spec], of_build=True)
    assert finding.verdict is Verdict.LACKING
    assert message in finding.detail


def gpus(folder: Path, *mebibytes: int) -> None:
    """Write a driver's program that states the memory of these GPUs."""
    program = folder / "nvidia-smi"
    lines = "".join(f"echo {one}\n" for one in mebibytes)
    program.write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    program.chmod(0o755)


def test_the_memory_of_gpus_is_checked_for_models_that_are_loaded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    model = load_profile("small").captioning.model
    assert isinstance(model, VllmChat)
    wide = model.model_copy(update={"engine_arguments": {"tensor_parallel_size": 2}})
    cases = [
        ((), model, "needs 1 NVIDIA GPU; this machine shows 0"),
        ((12288,), model, "needs a GPU with 20 GiB; this one has 12 GiB"),
        ((24564,), model, None),
        ((24564,), wide, "needs 2 NVIDIA GPUs; this machine shows 1"),
        ((24564, 12288), wide, "needs a GPU with 20 GiB; this one has 12 GiB"),
    ]
    for memories, spec, lack in cases:
        with subtests.test(memories=memories, lack=lack):
            gpus(tmp_path, *memories)
            assert gpu_lack(spec) == lack


def test_five_annotators_need_postgresql(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'loupe.db'}")
    for number in range(5):
        assert database_of_label_studio(tmp_path).verdict is Verdict.OK
        add_annotator(store, f"Ann {number}", NAME, number, ("annotator",))
    store.close()
    found = database_of_label_studio(tmp_path)
    assert (found.verdict, "5 annotators" in found.detail) == (Verdict.ABSENT, True)
    assert "LOUPE_LABEL_STUDIO_DATABASE_URL" in found.remedy
    with_postgres = database_of_label_studio(tmp_path, "postgresql://loupe@127.0.0.1/desk")
    assert with_postgres.verdict is Verdict.OK


def database_of_label_studio(home: Path, database_url: str = "") -> Finding:
    own = load_settings(home=home, label_studio_database_url=database_url)
    (found,) = [one for one in diagnose(own) if one.subject == "database of Label Studio"]
    return found
