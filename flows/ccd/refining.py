"""Request, parse and store the fine captions of groups (CCD, step 3)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from loupe.checks.text import Form, shown
from loupe.db.entities import LIVE, StoredEntity, WorkResult, fetch, parents_of
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.answers import (
    UnusableAnswerError,
    check_fields,
    check_language,
    check_own_words,
    check_translation,
    language_of,
    object_schema,
    read_answer,
    read_text,
    repair_request,
    text_schema,
)
from loupe.flows.ccd.caption_checks import group_warnings, refused_phrase, same_captions
from loupe.flows.ccd.resizing import smart_resized
from loupe.flows.ccd.run import CcdRun, coarse_captions
from loupe.flows.engine.context import sync_active_edits
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, run_llm_step
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.contrast import ContrastGroup
from loupe.schemas.profile import ImageArea
from loupe.schemas.proposals import CaptionGroup, GroupMember
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection
from loupe.schemas.requests import (
    CAPTIONS_FIELD,
    REFINEMENT_PURPOSE,
    REFINEMENT_REQUEST_MOST_CHARACTERS,
    REFINEMENT_REQUEST_REPAIR_PURPOSE,
    TRANSLATIONS_FIELD,
    RefinementBrief,
)

STAGE = REFINEMENT_PURPOSE
VERSION = "3"


def resized_images(
    images: Iterable[ChatImage], area: ImageArea
) -> tuple[ChatImage, ...] | Rejection:
    """Return all images of a group as a model is shown them, or why one cannot be shown.

    The reasons of a rejection are those of `smart_resized`; its context has the position of the
    `image`.

    Args:
        images: all of the group, the anchor first; each is scaled once for all requests.
        area: the size at which the model sees each image.
    """
    resized: list[ChatImage] = []
    for position, image in enumerate(images):
        one = smart_resized(image, area)
        if isinstance(one, Rejection):
            return one.model_copy(update={"stage": STAGE, "context": {"image": position}})
        resized.append(one)
    return tuple(resized)


def request_refinement(
    images: Sequence[ChatImage], brief: RefinementBrief, prompt: Prompt
) -> ChatRequest:
    """Return the request for a caption of each of `images`.

    The brief may contain anything, including instructions to the model, so the prompt marks it as
    data.

    Args:
        images: all of the group, as `resized_images` returns them.
        brief: the coarse caption, and the planned differences of the images.
        prompt: `refine_captions`, or a prompt with `caption` instead of `brief`.

    Raises:
        ValueError: the number of images differs from the brief.
    """
    if len(images) != brief.images:
        raise ValueError(f"the brief describes {brief.images} images; got {len(images)}")
    text = brief.text()
    values, schema = _prompt_values(brief, prompt), answer_schema(brief)
    return prompt.request(
        REFINEMENT_PURPOSE, values, subject=text, images=images, answer_schema=schema
    )


def request_repair(
    request: ChatRequest, answer: ChatAnswer, rejection: Rejection, prompt: Prompt
) -> ChatRequest:
    """Return the request to send once more after `answer` to `request` was rejected.

    Args:
        request: the request by `request_refinement`.
        answer: the model's answer, which is quoted as data.
        rejection: why the answer cannot be used.
        prompt: `repair_captions`.
    """
    values = _prompt_values(RefinementBrief.parse(request.subject), prompt)
    purpose = REFINEMENT_REQUEST_REPAIR_PURPOSE
    return repair_request(request, answer, rejection, prompt, purpose, **values)


def answer_schema(brief: RefinementBrief) -> dict[str, Any]:
    """Return the JSON schema of an answer: a caption of each image, and translations if wanted."""
    texts = {
        "type": "array",
        "items": text_schema(),
        "minItems": brief.images,
        "maxItems": brief.images,
    }
    fields = [CAPTIONS_FIELD, *([TRANSLATIONS_FIELD] if brief.second_language else [])]
    return object_schema(dict.fromkeys(fields, texts))


def _prompt_values(brief: RefinementBrief, prompt: Prompt) -> dict[str, str]:
    """Return the values of `prompt`: the brief, or only the coarse caption as in the paper."""
    shown = {"caption": brief.caption} if _tells_caption_alone(prompt) else {"brief": brief.text()}
    return {
        "images": str(brief.images),
        **shown,
        "second_language": brief.second_language or "",
    }


def _tells_caption_alone(prompt: Prompt) -> bool:
    return "caption" in prompt.variables


_NUMBER = re.compile(
    r"^\s*(?:(?:the )?(?:image|picture|photo|caption)\s*)?#?\(?(\d{1,2})\s?[.):]\)?\s+",
    re.IGNORECASE,
)


class RefinedCaptions(NamedTuple):
    """A caption of each image in their order, and as many translations or none."""

    captions: tuple[str, ...]
    translations: tuple[str, ...] = ()


def read_refinement(answer: ChatAnswer, brief: RefinementBrief) -> RefinedCaptions | Rejection:
    """Return the captions in `answer`, one of each image, or why they cannot be used.

    One unusable caption makes the answer unusable, because without it the others could belong to
    other images. Reasons: `wrong_count`, `same_captions` (of two images), `speaks_of_other_image`,
    `wrong_order` (captions are numbered, but not 1, 2, 3 …; right numbers are removed),
    `missing_field`, `untranslated` (a translation equals its caption), and those of
    `loupe.flows.answers`. The context has the raw answer.
    """
    return read_answer(answer, STAGE, lambda found: _read(found, brief))


def _read(found: dict[str, Any], brief: RefinementBrief) -> RefinedCaptions:
    fields = [CAPTIONS_FIELD, *([TRANSLATIONS_FIELD] if brief.second_language else [])]
    check_fields(found, fields, "The answer")
    form = Form(language_of(brief.caption), sentences=False)
    captions = _texts(found[CAPTIONS_FIELD], "Caption", brief.images, form)
    for number, caption in enumerate(captions, start=1):
        name = f"Caption {number}"
        check_language(caption, name, brief.caption)
        if (phrase := refused_phrase(caption, brief.caption)) is not None:
            detail = f"{name} speaks of what is not in its own picture: {shown(phrase.text)}."
            raise UnusableAnswerError("speaks_of_other_image", detail)
    if same := same_captions(captions):
        one, other = same[0]
        detail = f"Captions {one + 1} and {other + 1} say the same; wanted different ones."
        raise UnusableAnswerError("same_captions", detail)
    if brief.second_language is None:
        return RefinedCaptions(captions)
    form = Form(brief.second_language, sentences=False)
    translations = _texts(found[TRANSLATIONS_FIELD], "Translation", brief.images, form)
    for number, (text, caption) in enumerate(zip(translations, captions, strict=True), start=1):
        check_translation(text, f"Translation {number}", caption, brief.second_language)
    return RefinedCaptions(captions, translations)


def _texts(value: object, name: str, count: int, form: Form) -> tuple[str, ...]:
    """Return the texts without leading numbers, which must be those of the images."""
    if not isinstance(value, list):
        detail = f"{name}s must be a list; got {type(value).__name__}."
        raise UnusableAnswerError("wrong_type", detail)
    if len(value) != count:
        detail = (
            f"The answer holds {len(value)} {name.lower()}s; wanted {count}, one of each image."
        )
        raise UnusableAnswerError("wrong_count", detail)
    written = _without_numbers(value, name)
    texts = tuple(
        read_text(one, f"{name} {number}", REFINEMENT_REQUEST_MOST_CHARACTERS, form)
        for number, one in enumerate(written, start=1)
    )
    for text in texts:
        check_own_words(text, prompt="")  # the paper's prompt has a caption that may be repeated
    return texts


def _without_numbers(values: list[Any], name: str) -> list[Any]:
    """Return the values without leading numbers, which must be 1, 2, 3 and so on."""
    matches = [_NUMBER.match(one) if isinstance(one, str) else None for one in values]
    if not any(matches):
        return values
    numbers = [int(match[1]) if match else None for match in matches]
    if numbers != list(range(1, len(values) + 1)):
        detail = f"The {name.lower()}s have the numbers {numbers}."
        raise UnusableAnswerError("wrong_order", detail)
    return [one[match.end() :] for one, match in zip(values, matches, strict=True) if match]


class _Group(NamedTuple):
    """A group with its images, the anchor first, and the anchor's coarse captions."""

    entity: StoredEntity
    images: tuple[StoredEntity, ...]
    coarse: tuple[StoredEntity, ...]


class _Row(NamedTuple):
    """A group and the brief on one of its coarse captions."""

    group: _Group
    brief: RefinementBrief


_Answer = Parsed[_Row, RefinedCaptions]


def refine_captions(run: CcdRun) -> None:
    """Refine every coarse caption of every open group into a caption for each image.

    Captions of a group that is formed again are reused at no cost. After an unusable answer, the
    request is sent once more with the reason; then the group is quarantined with the answer.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    settings, second_language = run.settings, run.build.second_language
    refiner = DatasetModel(run.context, run.dataset, settings.refiner)
    prompt = load_prompt(settings.refinement_prompt)
    repair_prompt = load_prompt(settings.refinement_repair_prompt)
    prompts = {one.digest: refiner.store_prompt(one).id for one in (prompt, repair_prompt)}
    settings_id = refiner.settings_of(
        STAGE,
        VERSION,
        prompt,
        repair=repair_prompt.digest,
        area=settings.image_area.model_dump(),
        second_language=second_language,
        embedder=str(run.embedder.ref),
        style=settings.caption_style.model_dump(),
    ).id

    def requests(entities: Sequence[StoredEntity]) -> Iterator[list[Ask[_Row]] | WorkResult]:
        """Return a request for each coarse caption of each group."""
        for group in _loaded(run.store, entities):
            resized = resized_images(map(refiner.picture, group.images), settings.image_area)
            if isinstance(resized, Rejection):
                yield WorkResult(group.entity.seq, rejection=resized)
                continue
            briefs = _briefs(group, second_language, differences=not _tells_caption_alone(prompt))
            yield [
                Ask(_Row(group, brief), request_refinement(resized, brief, prompt))
                for brief in briefs
            ]

    def outputs(groups: Sequence[Sequence[_Answer]]) -> list[WorkResult]:
        """Return the captions of each group, and warnings about them."""
        records = [_record(rows, refiner.author, second_language) for rows in groups]
        warnings = group_warnings(run, records)
        return [
            result(rows, record.model_copy(update={"warnings": own}))
            for rows, record, own in zip(groups, records, warnings, strict=True)
        ]

    def result(rows: Sequence[_Answer], record: CaptionGroup) -> WorkResult:
        """Return the group as people judge it, and each of its captions."""
        group = rows[0].subject.group
        anchor = group.images[0]
        written_with = (Role.WRITTEN_WITH, settings_id)
        prompted_by = [
            (Role.PROMPTED_BY, one) for one in sorted({prompts[row.prompt_digest] for row in rows})
        ]
        parents = [(Role.REFINED_FOR, group.entity.id), *prompted_by, written_with]
        entity = run.create(record, parents, split=anchor.split, group=anchor.id)
        captions = [
            refiner.caption(
                image,
                text,
                row,
                [
                    (Role.WRITTEN_IN, entity.id),
                    (Role.REFINES, group.coarse[row].id),
                    (Role.PROMPTED_BY, prompts[rows[row].prompt_digest]),
                    written_with,
                ],
                rows[row].call,
                language=language,
                group=image.group,
            )
            for image, member in zip(group.images, record.members, strict=True)
            for language, texts in (
                (None, member.captions),
                (record.second_language, member.translations),
            )
            for row, text in enumerate(texts)
        ]
        return WorkResult(group.entity.seq, (entity, *captions))

    _sync_active_groups(run, settings_id)
    step = LLMStep(
        name=STAGE,
        version=VERSION,
        label="refine captions",
        configuration={"settings": settings_id},
        inputs=Pending(run.dataset, ContrastGroup.kind, ("proposed",)),
        request=requests,
        parse=lambda row, answer: read_refinement(answer, row.brief),
        outputs=outputs,
        repair=partial(request_repair, prompt=repair_prompt),
        chunk_size=20,  # groups, whose images are kept in memory
    )
    run.add(run_llm_step(refiner, step))


def _loaded(store: Store, entities: Sequence[StoredEntity]) -> list[_Group]:
    records = [one.record(ContrastGroup) for one in entities]
    images = fetch(store, {id_ for one in records for id_ in (one.anchor_id, *one.image_ids)})
    coarse = coarse_captions(store, [one.anchor_id for one in records])
    return [
        _Group(
            entity,
            tuple(images[id_] for id_ in (record.anchor_id, *record.image_ids)),
            tuple(coarse[record.anchor_id]),
        )
        for entity, record in zip(entities, records, strict=True)
    ]


def _briefs(
    group: _Group, second_language: str | None, *, differences: bool
) -> list[RefinementBrief]:
    """Return the briefs on the coarse captions, with or without the planned differences."""
    contrasts = [image.record(Image).contrast for image in group.images[1:]]
    planned = tuple(f"{one.difference}: {one.plan}" for one in contrasts if one and differences)
    return [
        RefinementBrief(
            images=len(group.images),
            caption=one.record(Caption).text,
            differences=planned,
            second_language=second_language,
        )
        for one in group.coarse
    ]


def _record(rows: Sequence[_Answer], author: str, second_language: str | None) -> CaptionGroup:
    """Return the group as people judge it, without warnings."""
    group, answers = rows[0].subject.group, [one.value for one in rows]
    members = []
    for place, image in enumerate(group.images):
        contrast = image.record(Image).contrast
        member = GroupMember(
            picture=picture_of(image),
            captions=tuple(one.captions[place] for one in answers),
            translations=tuple(one.translations[place] for one in answers if one.translations),
            difference=contrast.difference if contrast else None,
            plan=contrast.plan if contrast else "",
        )
        members.append(member)
    return CaptionGroup(
        source=group.images[0].record(Image).source,
        coarse_captions=tuple(one.record(Caption).text for one in group.coarse),
        members=tuple(members),
        author=author,
        second_language=second_language,
    )


def _sync_active_groups(run: CcdRun, settings_id: str) -> None:
    """Keep groups of captions active whose images are a group and whose settings are current."""
    groups = [one.id for one in run.find(CaptionGroup)]
    refined = parents_of(run.store, groups, Role.REFINED_FOR)
    written = parents_of(run.store, groups, Role.WRITTEN_WITH)
    current = {one.id for one in run.find(ContrastGroup, *LIVE)}

    def is_active(group: str) -> bool | None:
        if group not in refined:
            return None
        return refined[group][0] in current and written[group] == [settings_id]

    sync_active_edits(run.context, run.dataset, CaptionGroup.kind, is_active)
