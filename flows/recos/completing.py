"""Complete v0: captions instead of those that were not accepted, and images instead of others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from loupe.db.decisions import decide, last_reasons
from loupe.db.entities import LIVE, NewDecision, NewEntity, StoredEntity, WorkResult, fetch_children
from loupe.flows.engine.model_step import Ask, LLMStep, Parsed, run_llm_step
from loupe.flows.engine.runner import Stage, worked_items
from loupe.flows.engine.software import software
from loupe.flows.image_facts import facts_of
from loupe.flows.recos.captioning import (
    VERSION,
    read_captions,
    request_captions,
    task_of,
)
from loupe.flows.recos.run import RecosRun
from loupe.flows.recos.task_images import members_of, spare_images, take_instead
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.build import TaskSpec
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from loupe.schemas.recos import CaptionVerdict, DiscriminabilityReport
from loupe.schemas.requests import CAPTIONS_OF_AN_IMAGE, FURTHER_PURPOSE, CaptionBrief
from loupe.schemas.retrieval_task import TaskForm

_NO_CAPTION = "no caption of it was accepted, and another image was taken instead"
_MOST_TRIED = 12
"""The most earlier captions of a kind that a request has, the newest."""


class _Image(NamedTuple):
    """An image of v0 with too few captions.

    Attributes:
        entity: the image.
        captions: all its captions, whatever was decided on them.
        positions: the positions without an accepted caption.
    """

    entity: StoredEntity
    captions: Sequence[StoredEntity]
    positions: tuple[int, ...]

    @property
    def is_bare(self) -> bool:
        """Whether it has no accepted caption."""
        return len(self.positions) == CAPTIONS_OF_AN_IMAGE


def complete(run: RecosRun) -> bool:
    """Replace images without a caption, and write captions in the place of those not accepted.

    An image without an accepted caption is replaced by the next best of its source; if there is
    none, and for an image with some captions, further ones are written. Each image is asked about
    in at most `further_rounds` rounds, and a task takes at most as many times its images. Returns
    whether anything was taken or written.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    lacking = _lacking(run)
    replaced = _replace(run, [one.entity for one in lacking if one.is_bare])
    left = [one for one in lacking if one.entity.id not in replaced]
    is_written = _write(run, left)
    return bool(replaced) or is_written


def further_settings(run: RecosRun) -> NewEntity:
    """Return the settings that further captions are written with."""
    about = {task.task: task.form.captions for task in run.build.tasks}
    return run.captioner.settings_of(FURTHER_PURPOSE, VERSION, _prompt(run), tasks=about)


def _prompt(run: RecosRun) -> Prompt:
    return load_prompt(run.settings.prompt)


def _lacking(run: RecosRun) -> list[_Image]:
    """Return the decided images with too few captions; a withdrawn caption is not replaced."""
    images = {image.id: image for image in run.images_of("v0") if image.state in LIVE}
    found = fetch_children(run.store, images, Role.DESCRIBES)
    lacking: list[_Image] = []
    for id_, image in images.items():
        captions = found[id_]
        if {one.state for one in captions} & {"proposed", "withdrawn"}:
            continue
        taken = {one.record(Caption).position for one in captions if one.state == "accepted"}
        positions = tuple(at for at in range(CAPTIONS_OF_AN_IMAGE) if at not in taken)
        if positions:
            lacking.append(_Image(image, captions, positions))
    return lacking


# Further images


def _replace(run: RecosRun, bare: Sequence[StoredEntity]) -> set[str]:
    """Reject images for which their source has others, and take these; return the rejected ones."""
    decisions: list[NewDecision] = []
    for task, source in run.taken:
        members = members_of(run, task, source)
        if any(one.state == "withdrawn" for one in members):
            continue
        own = {one.id for one in members}
        leaving = [one for one in bare if one.id in own]
        if leaving:
            most = min(len(spare_images(run, task, source)), _left_to_take(run, task, members))
            agent = software()
            ids = [one.id for one in leaving[:most]]
            decisions += [NewDecision(one, "reject", agent, _NO_CAPTION) for one in ids]
    decide(run.store, decisions)
    if decisions:
        take_instead(run)
    return {one.entity_id for one in decisions}


def _left_to_take(run: RecosRun, task: TaskSpec, members: Sequence[StoredEntity]) -> int:
    reasons = last_reasons(run.store, [one.id for one in members if one.state == "rejected"])
    fallen = sum(reason == _NO_CAPTION for reason in reasons.values())
    return max(0, run.build.further_rounds * task.images - fallen)


# Further captions


def _write(run: RecosRun, lacking: Sequence[_Image]) -> bool:
    """Ask about each image in its next round; return whether any image had one left."""
    settings = further_settings(run)
    left = list(lacking)
    is_any = False
    for number in range(1, run.build.further_rounds + 1):
        configuration = {"settings": settings.id, "round": number}
        stage = Stage(FURTHER_PURPOSE, VERSION, run.dataset, configuration)
        asked = worked_items(run.context, stage, [one.entity.seq for one in left])
        now = [one for one in left if one.entity.seq not in asked]
        if now:
            is_any = True
            _ask(run, settings, configuration, now)
        left = [one for one in left if one.entity.seq in asked]
    return is_any


def _ask(
    run: RecosRun, settings: NewEntity, configuration: dict[str, object], images: Sequence[_Image]
) -> None:
    captioner, prompt = run.captioner, _prompt(run)
    parents = captioner.written_with(prompt, settings)
    forms = {task.task: task.form for task in run.build.tasks}

    def requests(chunk: Sequence[_Image]) -> Iterator[list[Ask[_Image]]]:
        briefs = _briefs(run, chunk)
        for one in chunk:
            task = task_of(one.entity)
            form = forms.get(task) or TaskForm(task=task, captions=task)
            picture = captioner.picture(one.entity)
            yield [Ask(one, request_captions(picture, form, briefs[one.entity.id], prompt))]

    def output(answer: Parsed[_Image, tuple[str, ...]]) -> WorkResult:
        image = answer.subject
        captions = [
            captioner.caption(image.entity, text, position, parents, answer.call)
            for position, text in zip(image.positions, answer.value, strict=True)
        ]
        return WorkResult(image.entity.seq, entities=tuple(captions))

    step = LLMStep(
        name=FURTHER_PURPOSE,
        version=VERSION,
        label="write further captions",
        configuration=configuration,
        inputs=[(one.entity.seq, one) for one in images],
        request=requests,
        parse=lambda one, answer: read_captions(answer, len(one.positions), _texts(one.captions)),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
    report = run_llm_step(captioner, step)
    report.asked_model = ""  # a model is judged by its first answers, not where they had failed
    run.add(report)


def _briefs(run: RecosRun, images: Sequence[_Image]) -> dict[str, CaptionBrief]:
    """Return what is known of each image, and what was tried for it, by id."""
    facts = facts_of(run.store, [one.entity.id for one in images])
    tried = [one.id for image in images for one in image.captions if one.state != "accepted"]
    verdicts = _verdicts(run, tried)
    briefs: dict[str, CaptionBrief] = {}
    for image in images:
        by_verdict: dict[CaptionVerdict, list[str]] = {verdict: [] for verdict in CaptionVerdict}
        for one in sorted(image.captions, key=lambda one: one.seq):
            if one.state != "accepted":
                verdict = verdicts.get(one.id, CaptionVerdict.PASS)
                by_verdict[verdict].append(one.record(Caption).text)
        newest = {verdict: tuple(texts[-_MOST_TRIED:]) for verdict, texts in by_verdict.items()}
        accepted = [one for one in image.captions if one.state == "accepted"]
        briefs[image.entity.id] = CaptionBrief(
            task=task_of(image.entity),
            count=len(image.positions),
            facts=facts.get(image.entity.id, ()),
            too_detailed=newest[CaptionVerdict.OVER_DETAILED],
            too_general=newest[CaptionVerdict.UNDER_DETAILED],
            rejected=newest[CaptionVerdict.PASS],
            taken=tuple(_texts(accepted)),
        )
    return briefs


def _verdicts(run: RecosRun, captions: Sequence[str]) -> Mapping[str, CaptionVerdict]:
    reports = fetch_children(run.store, captions, Role.MEASURES)
    return {id_: many[-1].record(DiscriminabilityReport).verdict for id_, many in reports.items()}


def _texts(captions: Sequence[StoredEntity]) -> list[str]:
    return [one.record(Caption).text for one in captions]
