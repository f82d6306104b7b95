"""Deployments as a user runs them: real Prefect, real Label Studio, real images."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow.parquet as pq
import pytest
from prefect.client.schemas.objects import State
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)

from loupe.annotate.queues import shipped
from loupe.db.entities import StoredEntity, find
from loupe.db.evaluations import evaluations_of
from loupe.db.lineage import TracedEntity, trace
from loupe.db.store import Store
from loupe.demo.worlds import write_people_world
from loupe.flows.engine.pipeline import load_build
from loupe.release.format.row_files import read_release
from loupe.schemas.base import sha256_of
from loupe.schemas.build import UFine3CBuild
from loupe.schemas.cfam import TrainingRecord
from loupe.schemas.records import Caption, Image, PromptText, Rewrite, Source
from loupe.services.prefect_server import prefect_auth_string
from tests.annotate.answering import Regions, accepting, editing, rejecting
from tests.flows.killing import calls_in
from tests.flows.prefect_runs import FlowRun, Prefect
from tests.flows.stopping import IN_FLIGHT, SECONDS, WAITING, asking, slow_build
from tests.flows.tiny_training import write_tiny_training
from tests.flows.worlds import loupe, write_toml
from tests.requirements import unavailable
from tests.servers.counting_server import (
    CountingServer,
    completion_of,
    counting_server,
    prompt_text,
)
from tests.servers.processes import REPOSITORY
from tests.services.fixtures import LabelStudioServer

pytestmark = [pytest.mark.prefect, pytest.mark.label_studio, pytest.mark.slow]

DATASET = "people"
SCORABLE = {"dataset": "scorable", "gate": "auto", "identities_per_source": 2}
COCO = REPOSITORY / "../shared/data/coco_captions"
RANDOM_MODEL = "tiny@random"
EDITED = "What a reviewer wrote by hand, text number {}."


class Answer(NamedTuple):
    """A reviewer's answer about a rewrite."""

    verdict: str
    regions: Regions
    text: str = ""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A build of two people of each demonstration source and four images of COCO."""
    if not COCO.is_dir():
        unavailable("the COCO captions are not there: ../shared/data/coco_captions")
    coco = {
        "name": "coco",
        "format": "json-lines",
        "annotations": COCO.resolve() / "annotations.jsonl",
        "images": COCO.resolve(),
        "granularity": "medium",
        "identities": 4,
        "licence": "CC BY 4.0 (annotations)",
        "permitted_by": "a test, which gives them to nobody",
    }
    values = {
        "dataset": DATASET,
        "gate": "required",
        "identities_per_source": 2,
        "max_unusable_share": 1.0,  # one model answers random words
        "sources": [*people(tmp_path), coco],
    }
    return write_toml(tmp_path / "build.toml", values)


def people(folder: Path) -> list[dict[str, Any]]:
    """Write the demonstration's sources with two people each; return them as in a build file."""
    world = write_people_world(folder / "people", 7, 2, 0, 0)
    return [
        {
            "name": source.name,
            "format": source.format,
            "annotations": source.annotations,
            "images": source.images,
            "licence": source.licence,
            "images_per_identity": 2,
        }
        for source in world.sources
    ]


def random_words(request: dict[str, Any]) -> dict[str, Any]:
    """Answer random words of the request; a third of the answers are cut off."""
    prompt = prompt_text(request)
    chance = random.Random(prompt)
    words = chance.choices(re.findall(r"[a-z]+", prompt), k=chance.randrange(5, 40))
    text = json.dumps({"rewrite": " ".join(words)})
    return completion_of(request, text if chance.random() < 0.67 else text[: len(text) // 2])


@pytest.fixture
def random_model() -> Iterator[CountingServer]:
    with counting_server(complete=random_words) as server:
        server.listed = [{"id": "tiny"}]
        yield server


@pytest.fixture
def profile(tmp_path: Path, random_model: CountingServer) -> Path:
    """A profile with a model that answers random words and the built-in one."""
    tiny = {
        "provider": "openai",
        "name": "tiny",
        "revision": "random",
        "base_url": random_model.base_url,
        "prices": {"input_per_million": 1.0, "output_per_million": 2.0},
    }
    builtin = {"provider": "builtin", "style": "flowing", "seed": 1}
    rewrite = {"max_characters": 600, "models": [tiny, builtin]}
    values = {"description": "random words, and rules", "judge": False, "rewrite": rewrite}
    return write_toml(tmp_path / "profile.toml", values)


def test_the_release_follows_the_decisions_of_reviewers(
    installation: Prefect, label_studio: LabelStudioServer, config: Path, profile: Path
) -> None:
    first = installation.run("build-ufine3c/default", config=config, profile=profile)
    assert (first.name, first.state) == (f"{DATASET}@0.1.0", "PAUSED"), first.message
    waiting = re.fullmatch(
        rf"(\d+) items of {DATASET} wait for people \(\1 in rewrites\); the queue watcher of "
        r"loupe up continues this run when they have decided in Label Studio \(.+\)",
        first.message,
    )
    assert waiting is not None, first.message
    assert_artifacts_report_the_run(installation, first)

    store = installation.store
    shown = {
        shipped().queue(DATASET, "rewrites").task_key(rewrite.id): rewrite
        for rewrite in find(store, DATASET, Rewrite.kind, states=("proposed",))
    }
    assert len(shown) == int(waiting[1])
    answers = dict(zip(shown, decide(shown.values()), strict=True))
    assert Counter(answer.verdict for answer in answers.values()).keys() == {
        "accept",
        "edit",
        "reject",
    }
    annotate(label_studio, answers)

    watcher = loupe(
        installation.settings.home,
        *("queue", "watch", "--every", "2"),
        variables=installation.settings.environment("label_studio_token"),
    )
    second = installation.follow(first)  # the last answer is in
    watcher.send(signal.SIGINT)
    assert watcher.wait() in (0, 130), watcher.output
    assert watcher.count(f"resumed: every item of {DATASET} is decided") == 1
    assert second.state == "COMPLETED", second.message
    assert str(installation.settings.home / "releases") in second.message
    folder = installation.settings.home / "releases" / f"{DATASET}-0.1.0"
    verified = loupe(installation.settings.home, "release", "verify", folder, "--json")
    assert verified.wait() == 0, verified.output
    released = released_texts(folder)
    for key, rewrite in shown.items():
        image, text = str(rewrite.group), rewrite.record(Rewrite).text
        answer = answers[key]
        assert ((image, text) in released) is (answer.verdict == "accept"), (answer, text)
        assert ((image, answer.text) in released) is (answer.verdict == "edit"), answer
    assert_random_words_are_released_only_if_accepted(store, released, shown, answers)
    assert_lineage_of_edits(store, released, shown, answers, config)


@pytest.fixture
def here(installation: Prefect, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prefect]:
    """The installation; flows called in this process report to its Prefect server."""
    monkeypatch.setenv("LOUPE_HOME", str(installation.settings.home))
    login = prefect_auth_string(installation.settings.home)
    server = {
        PREFECT_API_URL: f"{installation.url}/api",
        PREFECT_API_AUTH_STRING: login,
        PREFECT_LOGGING_TO_API_ENABLED: False,  # it would continue after the server's end
    }
    with temporary_settings(server):
        yield installation


def call(server: Prefect, name: str, **given: object) -> State[None]:
    """Call a deployed flow with these parameters in this process; return its final state."""
    deployed = server.deployment(f"{name}/default")
    assert given.keys() <= deployed["parameter_openapi_schema"]["properties"].keys()
    run: Any = load_flow_from_entrypoint(deployed["entrypoint"])
    assert run.name == name
    parameters = {key: str(value) for key, value in given.items()}
    state: State[None] = run(**parameters, return_state=True)
    return state


def test_every_other_deployment_runs_its_own_flow(here: Prefect, tmp_path: Path) -> None:
    """Run in this process, because the worker treats all deployments alike.

    All builds are one function with another pipeline, so the other builds are not run to their end.
    """
    source = {"name": "one", "licence": "CC0-1.0", "citation": "none"}
    videos = {**source, "videos": tmp_path}
    images = {**source, "format": "json-lines", "annotations": tmp_path, "images": tmp_path}
    unusable: dict[str, dict[str, Any]] = {
        "build-ufine6926": {"test_share": 2, "sources": [videos]},
        "build-recos": {"last": "v9", "tasks": [{"task": "calculation", "images": 4}]},
        "build-ccd": {"anchors": -1, "sources": [images]},
    }
    for name, values in unusable.items():
        config = write_toml(tmp_path / f"{name}.toml", values)
        refused = call(here, name, config=config)
        assert refused.is_failed(), name
        own_key = next(iter(values))
        assert f"build file {config}: {own_key}: " in str(refused.message), refused.message

    scorable = write_toml(tmp_path / "scorable.toml", {**SCORABLE, "sources": people(tmp_path)})
    built = call(here, "build-ufine3c", config=scorable, profile="builtin")
    assert built.is_completed(), built.message
    release = here.settings.home / "releases" / f"{SCORABLE['dataset']}-0.1.0"
    scored = call(here, "evaluate", release=release, profile="builtin")
    assert scored.is_completed(), scored.message
    store = here.store
    (stored,) = evaluations_of(store, read_release(release).manifest.id)
    store.close()
    score = stored.result.directions[0].scores["R@1"].value
    assert f" {score:.1f} %" in str(scored.message)
    assert Path(str(scored.message).rpartition("the leaderboard is ")[2]).is_file()

    tiny = write_tiny_training(tmp_path)
    trained = call(here, "train-cfam", release=tiny.release, config=tiny.config, out=tiny.out)
    assert trained.is_completed(), trained.message
    home = tmp_path / "out"
    record = TrainingRecord.model_validate_json((home / "training.json").read_bytes())
    assert f"is {home / 'best'}" in str(trained.message)

    artifacts = here.artifacts()
    assert f" | {score:.2f}" in artifacts[f"{SCORABLE['dataset']}-leaderboard"]
    assert f"| {record.best.metrics['R@1']:.2f} |" in artifacts["out-training"]


def test_a_failed_run_says_why_on_its_page_and_in_watch(
    installation: Prefect, tmp_path: Path
) -> None:
    source = {"name": "one", "format": "cuhk-pedes", "annotations": "broken.json", "images": "."}
    (tmp_path / "broken.json").write_text("[{", encoding="utf-8")
    config = write_toml(
        tmp_path / "build.toml", {"dataset": "broken", "gate": "auto", "sources": [source]}
    )
    program = Path(sys.executable).with_name("prefect")
    profiles = installation.settings.home / "prefect" / "profiles.toml"
    chosen = ["--param", f"config={config}"]
    watched = subprocess.run(
        [program, "deployment", "run", "build-ufine3c/default", "--watch", *chosen],
        env={**os.environ, "PREFECT_PROFILES_PATH": str(profiles), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    state = installation.newest_state()
    assert (watched.returncode, state["type"]) == (1, "FAILED"), watched.stderr
    assert "broken.json is not a cuhk-pedes file" in state["message"]
    assert state["message"].splitlines()[0] in watched.stdout
    assert "Traceback" not in watched.stdout


def test_a_cancelled_run_stores_the_answers_in_flight(
    installation: Prefect, tmp_path: Path
) -> None:
    home, port = installation.settings.home, str(installation.settings.prefect_port)
    variables = {"LOUPE_PREFECT_PORT": port}
    with counting_server(delay_seconds=SECONDS) as model:
        program = loupe(home, *slow_build(tmp_path, model), variables=variables)
        with asking(program, model) as run:
            run.send(signal.SIGINT)
            assert run.wait(120) == 130, run.output
        assert model.ledger.summary()["total"] == IN_FLIGHT
    assert calls_in(home) == IN_FLIGHT
    assert installation.newest_state()["type"] == "CANCELLED"
    assert run.count(WAITING.removesuffix("; ")) == 1


def assert_artifacts_report_the_run(installation: Prefect, run: FlowRun) -> None:
    """Assert that Prefect's pages show tasks, counts, rejections by reason and costs."""
    report = installation.artifacts()[f"{DATASET}-report"]
    assert "wait for people" in report
    assert re.search(
        r"- rewrites: \d+ items; tasks: \[[^]]+\]\(http\S+/projects/\d+/data\)", report
    )
    cost = re.search(
        rf"\| {RANDOM_MODEL} \| 40 \| ([\d,]+) \| ([\d,]+) \| 0 \| ([\d.]+) USD \|", report
    )
    assert cost is not None, report
    tokens_in, tokens_out = (int(cost[column].replace(",", "")) for column in (1, 2))
    assert float(cost[3]) == pytest.approx((tokens_in + 2 * tokens_out) / 1e6, abs=1e-4)
    assert re.search(r"^\| (?:rewrite|check faithfulness).*\d rejected \(", report, re.MULTILINE)
    assert "| import coco | 10 done  in " in report
    tasks = installation.ask(
        "task_runs/filter", {"flow_runs": {"id": {"any_": [run.id]}}, "limit": 200}
    )
    stages = Counter(task["name"].rpartition("-")[0] for task in tasks)
    assert len(stages) > 5
    assert {"pull people-rewrites", "push people-rewrites"} < set(stages)
    assert set(stages.values()) == {1}, "one task a stage"
    assert {task["state"]["type"] for task in tasks} == {"COMPLETED"}


def decide(rewrites: Iterable[StoredEntity]) -> Iterator[Answer]:
    """Return an answer for each rewrite: accept most sensible ones, reject random words."""
    count: Counter[str] = Counter()
    for number, rewrite in enumerate(rewrites):
        record = rewrite.record(Rewrite)
        count[record.author] += 1
        edited = EDITED.format(number)
        verdict = {1: "edit", 2: "reject"}.get(count[record.author] % 5, "accept")
        if record.author == RANDOM_MODEL:
            verdict = "reject"
        if verdict == "edit":
            yield Answer("edit", editing(edited), edited)
        elif verdict == "reject":
            yield Answer("reject", rejecting(record.text, note="tests say so"), "-")
        else:
            yield Answer("accept", accepting(record.text), "-")


def annotate(label_studio: LabelStudioServer, answers: Mapping[str, Answer]) -> None:
    """Answer all tasks as the first user, who needs no `loupe annotator add`."""
    with closing(signed_in(label_studio)) as person:
        project = project_of(person)
        query = f"project={project}&page_size=1000&fields=all"
        tasks = person.get(f"/api/tasks?{query}").raise_for_status().json()["tasks"]
        assert {task["data"]["key"] for task in tasks} == answers.keys()
        assert_picture_is_served(tasks[0]["data"]["image"])
        for task in tasks:
            regions = answers[task["data"]["key"]].regions
            path = f"/api/tasks/{task['id']}/annotations/"
            person.post(path, json={"result": regions}).raise_for_status()


def project_of(person: httpx.Client) -> int:
    """Return the id of the project with the rewrites."""
    projects = person.get("/api/projects", params={"page_size": 100}).raise_for_status().json()
    title = f"Loupe · {shipped().queue(DATASET, 'rewrites').name}"
    (number,) = [one["id"] for one in projects["results"] if one["title"] == title]
    return int(number)


def assert_picture_is_served(url: str) -> None:
    answer = httpx.get(url, timeout=60, trust_env=False)
    assert answer.status_code == 200
    assert sha256_of(answer.content) == url.rsplit("/", 1)[1]


def signed_in(label_studio: LabelStudioServer) -> httpx.Client:
    """Return a client of the first user, with the token of `loupe up`."""
    client = httpx.Client(base_url=label_studio.url, trust_env=False, timeout=120)
    token = {"refresh": label_studio.token}
    access = client.post("/api/token/refresh/", json=token).raise_for_status().json()["access"]
    client.headers["Authorization"] = f"Bearer {access}"
    return client


def released_texts(folder: Path) -> dict[tuple[str, str], str]:
    """Return the entity ids of the released texts, by image id and text."""
    found = {}
    for file in sorted((folder / "data").glob("*.parquet")):
        columns = ["image_entity_id", "captions", "caption_entity_ids"]
        for row in pq.read_table(file, columns=columns).to_pylist():
            for text, entity_id in zip(row["captions"], row["caption_entity_ids"], strict=True):
                found[(row["image_entity_id"], text)] = entity_id
    return found


def assert_random_words_are_released_only_if_accepted(
    store: Store,
    released: dict[tuple[str, str], str],
    shown: dict[str, StoredEntity],
    answers: dict[str, Answer],
) -> None:
    """Assert that rewrites of the random model are released only if a reviewer accepted them."""
    accepted = {shown[key].id for key, answer in answers.items() if answer.verdict == "accept"}
    random_words = [
        rewrite
        for rewrite in find(store, DATASET, Rewrite.kind)
        if rewrite.record(Rewrite).author == RANDOM_MODEL
    ]
    assert random_words, "the model gave no rewrite that passed the checks"
    assert {rewrite.id for rewrite in random_words} & set(released.values()) <= accepted


def assert_lineage_of_edits(
    store: Store,
    released: dict[tuple[str, str], str],
    shown: dict[str, StoredEntity],
    answers: dict[str, Answer],
    config: Path,
) -> None:
    """Assert that an edited text leads back to its draft, author, editor and source file."""
    files = {source.name: source.annotations for source in load_build(config, UFine3CBuild).sources}
    editors = set()
    for key, answer in answers.items():
        if answer.verdict != "edit":
            continue
        rewrite = shown[key]
        lineage = trace(store, released[(str(rewrite.group), answer.text)])
        by_kind: dict[str, list[TracedEntity]] = {}
        for node in lineage.entities.values():
            by_kind.setdefault(node.entity.kind, []).append(node.entity)
        assert rewrite.id in lineage.entities
        assert lineage.entities[rewrite.id].entity.state == "superseded"
        assert {prompt.record(PromptText).prompt_id for prompt in by_kind[PromptText.kind]} == {
            "rewrite_description"
        }
        (source,) = (entity.record(Source) for entity in by_kind[Source.kind])
        assert source.annotation_sha256 == sha256_of(Path(files[source.name]).read_bytes())
        assert {image.record(Image).source for image in by_kind[Image.kind]} == {source.name}
        assert {caption.record(Caption).source for caption in by_kind[Caption.kind]} == {
            source.name
        }
        author = rewrite.record(Rewrite).author
        assert author in {
            f"{lineage.agents[call.agent_id].name}@{lineage.agents[call.agent_id].revision}"
            for call in lineage.calls.values()
        }
        (decision,) = lineage.decisions[rewrite.id]
        person = lineage.agents[decision.agent_id]
        assert (decision.verdict, person.kind) == ("edit", "person")
        assert lineage.entities[lineage.root].entity.record(Rewrite).author == person.name
        assert "@" not in person.name, "a pseudonym, not an address"
        editors.add(person.name)
    assert len(editors) == 1
