"""Push and pull through the review desk, compared with the SDK of Label Studio in the same run.

    python -m benchmarks.review_desk [--tasks 4000] [--waiting 50000]

Starts a private Label Studio on a private PostgreSQL. Tasks are rewrites; up to a hundred are
annotated before the pull. Each method has a separate project, after a warm-up round. Reported are
tasks per second through the desk alone and through the complete commands `loupe queue push` and
`pull` (assignment, task data, store), their ratio to the SDK, and the time of a pull that finds
nothing new among `--waiting` tasks.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from pydantic import SecretStr

from loupe.annotate.backend import BATCH, LabelStudioDesk, NewTask, ProjectSpec
from loupe.annotate.pull import OVERLAP, pull
from loupe.annotate.push import push
from loupe.annotate.queues import shipped
from loupe.db.entities import ActivityRecord, new_entity
from loupe.db.store import Store
from loupe.db.work import register_plan, store_activity
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite
from loupe.services.environments import ensure_environment, environments_root
from loupe.services.label_studio import NAME, label_studio_token, start_label_studio
from loupe.services.process import free_port, stop
from tests.annotate.answering import new_sdk
from tests.postgres import postgres_programs, private_postgres

PUSH, PULL, RATIO, NOTHING_NEW_SECONDS = 800, 300, 0.7, 2.0
CONFIG = """<View>
  <Image name="image" value="$image"/>
  <HyperText name="description" value="$description_html"/>
  <HyperText name="rewrite" value="$rewrite_html"/>
  <TextArea name="text" toName="rewrite" value="$text"/>
  <Choices name="verdict" toName="rewrite">
    <Choice value="accept"/>
    <Choice value="reject"/>
  </Choices>
  <Choices name="reason" toName="rewrite">
    <Choice value="makes no sense"/>
  </Choices>
</View>"""
IMAGE = Image(
    source="bench",
    identity="1",
    split="test",
    file_path="1.png",
    sha256="a" * 64,
    source_sha256="a" * 64,
    media_type="image/png",
    width_px=64,
    height_px=128,
)
_WORDS = "A woman in a red coat and black boots walks along the street with a bag. "
_numbers = count(1)


class Server(NamedTuple):
    """An empty Label Studio."""

    url: str
    token: SecretStr

    def desk(self) -> LabelStudioDesk:
        """Our client of the server."""
        return LabelStudioDesk(self.url, self.token, timeout_seconds=600)

    def sdk(self) -> Any:
        """The official SDK for the server."""
        return new_sdk(self.url, self.token, httpx.Client(trust_env=False, timeout=600))

    def new_project(self) -> int:
        """Create a project and return its id."""
        marker = f"benchmark {next(_numbers)}"
        return self.desk().ensure_project(ProjectSpec(marker, marker, CONFIG, "Read the text."))


class Rates(NamedTuple):
    """Tasks per second."""

    push: float
    pull: float


class Whole(NamedTuple):
    """Speed of the commands; `nothing_new` is the seconds of a pull without new annotations."""

    rates: Rates
    nothing_new: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--waiting", type=int, default=50_000)
    arguments = parser.parse_args()
    with private_label_studio() as server:
        measure_with_desk(server, new_tasks(BATCH))  # warm up the server
        sdk = measure_with_sdk(server, new_tasks(arguments.tasks))
        desk = measure_with_desk(server, new_tasks(arguments.tasks))
        whole = measure_whole(server, "some", arguments.tasks)
        waiting = measure_whole(server, "many", arguments.waiting)
    report(desk, sdk, whole, waiting, arguments.waiting)


@contextmanager
def private_label_studio() -> Iterator[Server]:
    programs = postgres_programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed: apt-get install postgresql")
    environment = ensure_environment("label-studio", environments_root())
    with tempfile.TemporaryDirectory() as folder, private_postgres(programs) as postgres:
        home = Path(folder)
        database = postgres.url(postgres.create_database())
        service = start_label_studio(home, free_port(), environment, database)
        try:
            url = str(service.url)
            yield Server(url, label_studio_token(home, url))
        finally:
            stop(home, NAME)


def new_tasks(number: int) -> list[NewTask]:
    return [new_task(next(_numbers)) for _ in range(number)]


def new_task(number: int) -> NewTask:
    key = f"{number:032x}"
    text = f"{number}: {_WORDS * 4}"
    data = {
        "key": key,
        "image": f"http://127.0.0.1:8090/blobs/{number:064x}",
        "description_html": f"<p>{text}</p>",
        "rewrite_html": f"<p>{text}</p>",
        "text": text,
    }
    return NewTask(key, data, [])


def measure_with_desk(server: Server, tasks: Sequence[NewTask]) -> Rates:
    desk, project = server.desk(), server.new_project()
    push, numbers = timed(lambda: desk.import_tasks(project, tasks))
    answer_some(server, numbers)
    pull, found = timed(lambda: list(desk.list_tasks(project)))
    require([task.id for task in found] == numbers, "the desk lists what it imported")
    return Rates(len(tasks) / push, len(tasks) / pull)


def measure_with_sdk(server: Server, tasks: Sequence[NewTask]) -> Rates:
    sdk, project = server.sdk(), server.new_project()

    def import_all() -> None:
        for start in range(0, len(tasks), BATCH):
            batch = [
                {"data": task.data, "predictions": task.predictions}
                for task in tasks[start : start + BATCH]
            ]
            sdk.projects.import_tasks(project, request=batch)

    def list_all() -> list[Any]:
        return list(sdk.tasks.list(project=project, fields="all", page_size=BATCH))

    push, _ = timed(import_all)
    answer_some(server, [task.id for task in server.desk().list_tasks(project)])
    pull, found = timed(list_all)
    require(len(found) == len(tasks), "the SDK lists what it imported")
    return Rates(len(tasks) / push, len(tasks) / pull)


def answer_some(server: Server, task_ids: Sequence[int]) -> None:
    """Annotate a tenth, at most a hundred, because creating annotations is slow."""
    sdk = server.sdk()
    choices = {"verdict": "reject", "reason": "makes no sense"}
    result = [
        {"from_name": name, "to_name": "rewrite", "type": "choices", "value": {"choices": [choice]}}
        for name, choice in choices.items()
    ]
    for task_id in task_ids[::10][:100]:
        sdk.annotations.create(task_id, result=result, lead_time=3.0)


def measure_whole(server: Server, dataset: str, number: int) -> Whole:
    """Time `loupe queue push` and `pull` of a dataset with `number` rewrites."""
    desk = server.desk()
    queue = shipped().queue(dataset, "rewrites")
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{folder}/loupe.db")
        seed(store, dataset, number)
        pushing, report = timed(lambda: push(store, lambda _: desk, queue, "http://127.0.0.1:1"))
        require(report.pushed == number, "the push sent all")
        ((_, project),) = report.projects
        answer_some(server, [task.id for task in desk.list_tasks(project)])
        pulling, pulled = timed(lambda: pull(store, lambda _: desk, queue))
        require(pulled.rejected == min(100, number // 10), "the pull found all answers")
        time.sleep(OVERLAP.total_seconds())  # recent annotations are read twice
        again, nothing = timed(lambda: pull(store, lambda _: desk, queue))
        require(nothing.rejected == 0, "nothing is new")
        store.close()
    return Whole(Rates(number / pushing, number / pulling), again)


def seed(store: Store, dataset: str, number: int) -> None:
    """Fill a store with an image and faithful rewrites of its caption."""
    image = new_entity(IMAGE, dataset)
    caption = new_entity(
        Caption(source="bench", text=_WORDS * 4, position=0),
        dataset,
        parents=[(Role.DESCRIBES, image.id)],
    )
    entities = [image, caption]
    for place in range(number):
        rewrite = new_entity(
            Rewrite(source="bench", text=f"{place}: {_WORDS * 4}", author="m@1"),
            dataset,
            parents=[(Role.REWRITE_OF, caption.id)],
            group=image.id,
        )
        check = FaithfulnessReport(verdict="faithful", findings=())
        entities += [rewrite, new_entity(check, dataset, parents=[(Role.CHECKS, rewrite.id)])]
    plan_id = register_plan(store, "benchmark", "1", {})
    with store.write() as connection:
        activity = ActivityRecord(plan_id, dataset, "", "", datetime.now(UTC))
        store_activity(connection, activity, entities)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def require(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"the figures are invalid: it does not hold that {what}")


def report(desk: Rates, sdk: Rates, whole: Whole, many: Whole, waiting: int) -> None:
    rows = (
        ("push", desk.push, whole.rates.push, sdk.push, PUSH),
        ("pull", desk.pull, whole.rates.pull, sdk.pull, PULL),
    )
    for name, alone, command, theirs, wanted in rows:
        print(f"{name} through the bare SDK            {theirs:>10,.0f} tasks/s")
        print(f"{name} through the desk                {alone:>10,.0f} tasks/s  (wanted: {wanted})")
        print(f"  ratio                             {alone / theirs:>10.2f}  (wanted: {RATIO})")
        print(f"loupe queue {name}                     {command:>10,.0f} tasks/s")
        print(f"  ratio                             {command / theirs:>10.2f}  (wanted: {RATIO})")
    print(
        f"nothing new among {waiting:,} tasks     {many.nothing_new:>10.2f} s  "
        f"(wanted: below {NOTHING_NEW_SECONDS:.0f})"
    )


if __name__ == "__main__":
    main()
