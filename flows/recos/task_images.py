"""The images of a benchmark of tasks: taken from their sources, and selected by people."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from loupe.db.decisions import decide, last_agents, last_reasons
from loupe.db.entities import (
    NewDecision,
    NewEntity,
    StoredEntity,
    Verdict,
    WorkResult,
    fetch_children,
    fetch_parents,
    find_children,
    parents_of,
)
from loupe.db.store import Store
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, get_or_create_entity, run_each
from loupe.flows.engine.software import software
from loupe.flows.recos.captioning import Captioning, task_of
from loupe.flows.recos.run import RecosRun, copied_image, images_of_source, originals_of, truths_of
from loupe.retrieval.score_matrix import text_cosines
from loupe.schemas.base import digest_of
from loupe.schemas.build import TaskSpec
from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, ImageFacts, Rejection
from loupe.schemas.recos import Selection, TaskDraw
from loupe.schemas.requests import WrittenSignPair
from loupe.schemas.text_files import read_text

# The images of a source in the order in which a task takes them, best first.

Method = Literal["named", "nearest", "categories", "random"]


class OrderedImages(NamedTuple):
    """Images of a source in the order of a task.

    `method` is how they were ordered; `unknown` are names or categories that the task wants and no
    image has.
    """

    method: Method
    images: list[StoredEntity]
    unknown: list[str]


def _named(images: Sequence[StoredEntity], names_file: Path) -> OrderedImages:
    by_path = {_composed(image.record(Image).file_path): image for image in images}
    names = _names(names_file)
    found = [by_path[_composed(name)] for name in names if _composed(name) in by_path]
    unknown = [name for name in names if _composed(name) not in by_path]
    return OrderedImages("named", found, unknown)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _names(path: Path) -> list[str]:
    try:
        lines = read_text(path, "a list of paths", name=f"names {path}").splitlines()
    except FormatError as error:
        raise ConfigurationError(str(error)) from error
    names = (line.strip().removeprefix("./") for line in lines)
    return list(dict.fromkeys(name for name in names if name and not name.startswith("#")))


def nearest_first(
    models: Captioning, images: Sequence[StoredEntity], query: str
) -> list[StoredEntity]:
    """Return all images, nearest to the query first."""
    cosines = np.round(text_cosines(models.embed_texts([query]), models.embed(images))[0], 6)
    order = sorted(range(len(images)), key=lambda at: (-cosines[at], images[at].id))
    return [images[at] for at in order]


def _with_categories(
    store: Store, images: Sequence[StoredEntity], categories: Sequence[str]
) -> OrderedImages:
    """Return images with at least one of the categories, and categories without an image."""
    known = fetch_parents(store, [image.id for image in images], Role.KNOWN_FROM)
    named: dict[str, set[str]] = defaultdict(set)
    for id_, facts in known.items():
        for one in facts:
            named[id_] |= {name.casefold() for name in one.record(ImageFacts).categories}
    wanted = {" ".join(name.casefold().split()): name for name in categories}
    found = [one for one in images if not wanted.keys().isdisjoint(named.get(one.id, ()))]
    seen = set().union(*named.values())
    unknown = [name for folded, name in wanted.items() if folded not in seen]
    return OrderedImages("categories", found, unknown)


# Only images are taken, not the captions of their source: new captions are written.

STAGE = "take_task_images"
VERSION = "1"


def take_images(run: RecosRun, task: TaskSpec, source: NewEntity) -> StageReport:
    """Copy the first images of a task from their source into v0.

    An image that the dataset already has for another task is skipped. Missing names, categories
    without an image, and images that the task already has from another source are quarantined. If
    something of a draw was withdrawn, the draw is kept and nothing is taken instead.

    Raises:
        ConfigurationError: the source has no usable image, the file of names cannot be read, or the
            dataset has another draw for the task.
    """
    run.require_own_dataset("tasks")
    images = images_of_source(run.store, source.id)
    if not images:
        raise ConfigurationError(
            f"source {source.dataset} has no usable image; look at: loupe quarantine "
            f"{source.dataset}"
        )
    if (reduced := _reduced_draw(run, task, source)) is not None:
        return _take(run, task, source, reduced.id, [])
    ordered = _ordered(run, task, images)
    own = (task.task, source.dataset)
    taken: dict[str, Image] = {}
    for image in run.find(Image):
        record = image.record(Image)
        if record.tier == "v0" and (record.task, record.source) != own:
            taken[record.sha256] = record
    chosen = _different(ordered.images, taken.keys())[: task.images]
    draw = _record(run, task, source, ordered.method, chosen)
    items: list[tuple[int, StoredEntity | str | Rejection]] = [(one.seq, one) for one in chosen]
    for image in ordered.images[: task.images]:
        record = image.record(Image)
        if (other := taken.get(record.sha256)) is not None and other.task == task.task:
            detail = (
                f"{record.file_path} of {record.source} is {other.file_path} of {other.source}, "
                f"an image of the task already."
            )
            items.append((image.seq, Rejection.of(STAGE, "duplicate_image", detail)))
    items += [(-1 - place, name) for place, name in enumerate(ordered.unknown)]
    return _take(run, task, source, draw.id, items)


def take_instead(run: RecosRun) -> bool:
    """Take the next best images instead of rejected ones.

    Returns whether there were any. Each task takes as many as it lacks, or as its source still has.
    """
    is_any = False
    for task, source in run.taken:
        draw = _draws(run, task, source)[0]
        members = members_of(run, task, source)
        rejected = sum(image.state == "rejected" for image in members)
        missing = task.images - (len(members) - rejected)
        if missing <= 0 or not rejected:
            continue
        chosen = spare_images(run, task, source)[:missing]
        if len(chosen) < missing:
            run.say(
                f"{task.task}: {missing - len(chosen)} of {task.images} images are missing; source "
                f"{source.dataset} has no more to propose"
            )
        report = _take(run, task, source, draw.id, [(one.seq, one) for one in chosen])
        if report.done:
            run.add(report)
            is_any = True
    return is_any


def members_of(run: RecosRun, task: TaskSpec, source: NewEntity) -> list[StoredEntity]:
    """Return the images that a task took from a source, with any decision."""
    (draw, *_) = _draws(run, task, source)
    return list(find_children(run.store, draw.id, Role.MEMBER_OF))


def spare_images(run: RecosRun, task: TaskSpec, source: NewEntity) -> list[StoredEntity]:
    """Return the images that a task may still take from a source, best first.

    An image that was taken before, for any task, is not taken again.
    """
    ordered = _ordered(run, task, images_of_source(run.store, source.id))
    had = {one.record(Image).sha256 for one in run.images_of("v0")}  # including rejected ones
    return _different(ordered.images, had)


def _ordered(run: RecosRun, task: TaskSpec, images: Sequence[StoredEntity]) -> OrderedImages:
    """Return those of `images` that a task may take: named, nearest to its query, or random.

    Raises:
        ConfigurationError: the file of names cannot be read.
    """
    if task.names is not None:
        return _named(images, task.names)
    if task.query is not None:
        return OrderedImages("nearest", nearest_first(run.captioning, images, task.query), [])
    seed = str(run.build.seed)
    drawn = sorted(images, key=lambda image: digest_of("task", seed, task.task, image.id))
    if task.categories:
        return _with_categories(run.store, drawn, task.categories)
    return OrderedImages("random", drawn, [])


def _record(
    run: RecosRun, task: TaskSpec, source: NewEntity, method: Method, chosen: Sequence[StoredEntity]
) -> NewEntity:
    """Store the draw and how it was made.

    Raises:
        ConfigurationError: the dataset has another draw for the task.
    """
    draw = TaskDraw(
        task=task.task,
        source=source.dataset,
        method=method,
        query=task.query,
        categories=task.categories,
        embedder=str(run.captioning.embedder.ref) if method == "nearest" else None,
        seed=run.build.seed,
        images_wanted=task.images,
        images_drawn=len(chosen),
        digest=digest_of(*(image.id for image in chosen)),
    )
    for earlier in _draws(run, task, source):
        if (record := earlier.record(TaskDraw)) != draw:
            raise ConfigurationError(
                f"dataset {run.dataset!r} already holds another draw of {draw.task} images "
                f"from {draw.source} ({record.images_drawn} {record.method}); build under "
                f"another dataset name"
            )
    return get_or_create_entity(run.context, draw, run.dataset, [(Role.DRAWN_FROM, source.id)])


def _reduced_draw(run: RecosRun, task: TaskSpec, source: NewEntity) -> StoredEntity | None:
    """Return the same draw if something of it was withdrawn, so that it cannot be repeated."""
    wanted = (task.query, task.categories, run.build.seed, task.images)
    for draw in _draws(run, task, source):
        record = draw.record(TaskDraw)
        if (record.query, record.categories, record.seed, record.images_wanted) == wanted:
            members = find_children(run.store, draw.id, Role.MEMBER_OF)
            if any(one.state == "withdrawn" for one in members):
                return draw
    return None


def _draws(run: RecosRun, task: TaskSpec, source: NewEntity) -> list[StoredEntity]:
    """Return the draws for a task from a source."""
    wanted = (task.task, source.dataset)
    draws: list[StoredEntity] = []
    for one in run.find(TaskDraw):
        record = one.record(TaskDraw)
        if (record.task, record.source) == wanted:
            draws.append(one)
    return draws


def _take(
    run: RecosRun,
    task: TaskSpec,
    source: NewEntity,
    draw_id: str,
    items: Iterable[tuple[int, StoredEntity | str | Rejection]],
) -> StageReport:
    """Commit images as members of a draw.

    A name or category without an image in the source is quarantined.
    """
    stage = Stage(
        STAGE,
        VERSION,
        run.dataset,
        {"draw": draw_id},
        label=f"take {task.task} from {source.dataset}",
    )

    def taken(number: int, item: StoredEntity | str | Rejection) -> WorkResult:
        if isinstance(item, Rejection):
            return WorkResult(number, rejection=item)
        if isinstance(item, StoredEntity):
            parents = [(Role.MEMBER_OF, draw_id)]
            copy = copied_image(item, run.dataset, task.task, "v0", parents)
            return WorkResult(number, entities=(copy,))
        if task.categories:
            reason = "unknown_category"
            detail = f"No usable image of {source.dataset} has the category {item!r}."
        else:
            reason = "unknown_name"
            detail = f"{task.names} names {item!r}, which is no usable image of {source.dataset}."
        return WorkResult.rejected(number, STAGE, reason, detail, name=item)

    return run_each(run.context, stage, sorted(items, key=itemgetter(0)), taken)


def _different(images: Sequence[StoredEntity], taken: Collection[str]) -> list[StoredEntity]:
    """Return images whose content is not taken, each content once."""
    chosen: dict[str, StoredEntity] = {}
    for image in images:
        sha256 = image.record(Image).sha256
        if sha256 not in taken:
            chosen.setdefault(sha256, image)
    return list(chosen.values())


# People are asked which images fit their task, and their answers are applied.

_ASK_STAGE = "propose_selections"
_ASK_VERSION = "1"
_NOT_SELECTED = "its image was found not to fit its task"
_FOLLOWED = "as people or their policy answered whether it fits its task"
_VERDICTS: dict[str, Verdict] = {
    "accepted": "accept",
    "rejected": "reject",
    "proposed": "reopen",
}


def propose_selections(run: RecosRun) -> None:
    """Propose a question for each image of v0 with unknown truth that has none."""
    images = run.images_of("v0")
    originals = originals_of(run.store, images)
    drawn = truths_of(run.store, sorted(set(originals.values())))
    doubtful = _translated_by_models(run.store, list(drawn))
    known = drawn.keys() - doubtful.keys()
    asked = [image for image in images if originals[image.id] not in known]
    draws = fetch_parents(run.store, [image.id for image in asked], Role.MEMBER_OF)
    stage = Stage(_ASK_STAGE, _ASK_VERSION, run.dataset, {}, label="propose images")

    def result(number: int, image: StoredEntity) -> WorkResult:
        draw = draws[image.id][0].record(TaskDraw)
        record = Selection(
            source=image.record(Image).source,
            task=task_of(image),
            picture=picture_of(image),
            proposed_by=doubtful.get(originals[image.id]) or _words(draw),
        )
        return WorkResult(number, entities=(run.create(record, [(Role.SELECTS, image.id)]),))

    run.add(run_each(run.context, stage, [(image.seq, image) for image in asked], result))


def follow_selections(run: RecosRun, fixed: Collection[str] = ()) -> None:
    """Accept, reject or reopen images according to the answers.

    An image with another decision, such as a withdrawal, is left unchanged, as are `fixed` ones.
    """
    store, queue = run.store, run.queues["selections"]
    questions = run.find(Selection)
    about = fetch_parents(store, [one.id for one in questions], Role.SELECTS)
    agents = last_agents(store, list(about))
    reasons = last_reasons(store, sorted({images[0].id for images in about.values()}))
    decisions: list[NewDecision] = []
    for one in questions:
        image = about[one.id][0]
        if one.state not in _VERDICTS or one.state == image.state or image.id in fixed:
            continue
        if reasons.get(image.id, _FOLLOWED) == _FOLLOWED:
            agent = agents.get(one.id, queue.agent)
            decisions.append(NewDecision(image.id, _VERDICTS[one.state], agent, _FOLLOWED))
    decide(store, [*decisions, *_captions_following(run, decisions)])


def _captions_following(run: RecosRun, decisions: Sequence[NewDecision]) -> Iterator[NewDecision]:
    """Reject the captions of images that are now rejected, and reopen them with their images."""
    rejected = {one.entity_id: one.verdict == "reject" for one in decisions}
    below = fetch_children(run.store, list(rejected), Role.DESCRIBES)
    reasons = last_reasons(run.store, [one.id for many in below.values() for one in many])
    agent = software()
    for image_id, captions in below.items():
        for one in captions:
            if rejected[image_id] and one.state == "proposed":
                yield NewDecision(one.id, "reject", agent, _NOT_SELECTED)
            elif not rejected[image_id] and reasons.get(one.id) == _NOT_SELECTED:
                yield NewDecision(one.id, "reopen", agent, "its image fits its task")


def _translated_by_models(store: Store, originals: Sequence[str]) -> dict[str, str]:
    """Return drawn images with texts written by a model, and these texts in words."""
    truths = parents_of(store, originals, Role.RENDERED_FROM)
    worded = fetch_parents(store, [found[0] for found in truths.values()], Role.WORDED_BY)
    words: dict[str, str] = {}
    for original, (truth, *_) in truths.items():
        records = [one.record(WrittenSignPair).pair for one in worded[truth]]
        if records:
            texts = "; ".join(f"{pair.chinese} = “{pair.english}”" for pair in records)
            words[original] = f"drawn with a translation by a model that nobody checked: {texts}"
    return words


def _words(draw: TaskDraw) -> str:
    return {
        "named": "named by who builds the benchmark",
        "nearest": f"among those nearest to “{draw.query}”",
        "categories": f"said to show {' or '.join(draw.categories)}",
        "random": "drawn at random",
    }[draw.method]
