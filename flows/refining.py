"""Has the captions of whole groups refined, and says what speaks against them (CCD, step 3)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from annotate.drafts import PROMPTED_BY
from annotate.items import DESCRIBES
from db.entities import NewEntity, StoredEntity, fetch, new_entity
from db.store import Store
from db.work import Pending, WorkResult
from flows.anchors import coarse_captions
from flows.asked_model import AskedModel
from flows.asking import require_answers
from flows.captioning import WRITTEN_WITH
from flows.contrast_groups import REFINED_FOR
from flows.embedding import CachedEmbedder
from flows.group_checks import GroupChecks
from flows.repairing import NotUnderstood, Understood, ask_and_repair, not_understood
from flows.report import StageReport, StageResult
from flows.rewriting import store_prompts
from flows.runner import Stage, run_stage
from flows.standing_groups import keep_standing_groups
from flows.task_images import picture_of
from prompts.loader import load_prompt
from schemas.chat import ChatAnswer, ChatRequest
from schemas.contrast_records import ContrastGroup
from schemas.profile import ContrastSettings
from schemas.proposals import CaptionGroup, GroupMember
from schemas.records import Caption, Image, Rejection
from schemas.refinement_request import RefinementBrief
from stages.refine_captions.answer import RefinedCaptions, read_refinement
from stages.refine_captions.request import (
    STAGE,
    VERSION,
    request_refinement,
    request_repair,
    resized_images,
)

WRITTEN_IN = "written_in"
"""The role of the group of captions that a fine caption belongs to."""
REFINES = "refines"
"""The role of the coarse caption that a fine one was made of."""


class _Group(NamedTuple):
    """A group with its images, the anchor first, and the anchor's coarse captions."""

    entity: StoredEntity
    images: tuple[StoredEntity, ...]
    coarse: tuple[StoredEntity, ...]

    def brief(self, row: int, second_language: str | None) -> RefinementBrief:
        """What a model is told of one of the coarse captions."""
        contrasts = [image.record(Image).contrast for image in self.images[1:]]
        return RefinementBrief(
            images=len(self.images),
            caption=self.coarse[row].record(Caption).text,
            differences=tuple(f"{one.difference}: {one.plan}" for one in contrasts if one),
            second_language=second_language,
        )


class _Asked(NamedTuple):
    """A request for one of the coarse captions of a group."""

    group: _Group
    row: int
    brief: RefinementBrief
    request: ChatRequest


def refine_captions(
    refiner: AskedModel,
    settings: ContrastSettings,
    embedder: CachedEmbedder,
    second_language: str | None,
) -> StageReport:
    """Has every coarse caption of every open group refined, one caption for each of its images.

    What was refined for a group that is formed again counts again, and costs nothing.
    An answer that is no use is asked for once more, with what is wrong; then the group goes to
    quarantine with it.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is gone; what came back before is stored.
    """
    context, dataset = refiner.context, refiner.dataset
    refining = _Refining(refiner, settings, embedder, second_language)
    keep_standing_groups(context, dataset, refining.settings_id)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": refining.settings_id},
        agents=(refiner.agent,),
        chunk_size=20,  # of groups, whose pictures are held
        workers=1,  # a chat model keeps many requests in flight itself
        label="refine captions",
    )
    groups = Pending(dataset, ContrastGroup.kind, ("proposed",))
    report = run_stage(context, stage, groups, refining.results)
    require_answers(refiner.spec.ref, report)
    return report


class _Written(NamedTuple):
    """The captions of a group, and for each coarse caption the key of the call and its prompt."""

    group: _Group
    record: CaptionGroup
    calls: tuple[str, ...]
    prompt_ids: tuple[str, ...]


_Row = Understood[RefinedCaptions] | NotUnderstood
"""What came of the request for one coarse caption of a group."""


class _Refining:
    """The refinement of one run: what is asked, and what becomes of the answers."""

    def __init__(
        self,
        refiner: AskedModel,
        settings: ContrastSettings,
        embedder: CachedEmbedder,
        second_language: str | None,
    ) -> None:
        self._refiner = refiner
        self._second_language = second_language
        self._area = settings.image_area
        self._checks = GroupChecks(refiner.context, embedder, settings.caption_style)
        self._prompt = load_prompt(settings.refinement_prompt)
        self._repair_prompt = load_prompt(settings.refinement_repair_prompt)
        prompts = self._prompt, self._repair_prompt
        self._prompts = store_prompts(refiner.context, refiner.dataset, prompts)
        with_settings = refiner.settings_of(
            STAGE,
            VERSION,
            self._prompt,
            repair=self._repair_prompt.digest,
            area=self._area.model_dump(),
            second_language=second_language,
            embedder=str(embedder.ref),
            style=settings.caption_style.model_dump(),
        )
        self.settings_id = with_settings.id

    def results(self, entities: Sequence[StoredEntity]) -> list[StageResult]:
        """What becomes of each group, in order."""
        refused: dict[int, Rejection] = {}
        asked: list[_Asked] = []
        groups = _loaded(self._refiner.context.store, entities)
        for group in groups:
            requests = self._requests(group)
            if isinstance(requests, Rejection):
                refused[group.entity.seq] = requests
            else:
                asked += requests
        answered = ask_and_repair(
            self._refiner.model,
            [one.request for one in asked],
            lambda number, answer: read_refinement(answer, asked[number].brief),
            self._repair,
        )
        rows: dict[int, list[_Row]] = defaultdict(list)
        for one, found in zip(asked, answered, strict=True):
            rows[one.group.entity.seq].append(found)
        written = [self._written(group, rows[group.entity.seq], refused) for group in groups]
        doubts = self._checks.doubts([one.record for one in written if isinstance(one, _Written)])
        return [
            self._result(one, doubts[one.record]) if isinstance(one, _Written) else one
            for one in written
        ]

    def _requests(self, group: _Group) -> list[_Asked] | Rejection:
        """What a group is asked about with, once for each coarse caption."""
        shown = resized_images([self._refiner.picture(one) for one in group.images], self._area)
        if isinstance(shown, Rejection):
            return shown
        briefs = [group.brief(row, self._second_language) for row in range(len(group.coarse))]
        return [
            _Asked(group, row, brief, request_refinement(shown, brief, self._prompt))
            for row, brief in enumerate(briefs)
        ]

    def _repair(self, request: ChatRequest, answer: ChatAnswer, problem: Rejection) -> ChatRequest:
        return request_repair(request, answer, problem, self._repair_prompt)

    def _written(
        self, group: _Group, rows: Sequence[_Row], refused: Mapping[int, Rejection]
    ) -> _Written | StageResult:
        """The captions of a group; without one of the answers there are none."""
        number = group.entity.seq
        if number in refused:
            return WorkResult(number, rejection=refused[number])
        understood: list[Understood[RefinedCaptions]] = []
        for row in rows:
            if isinstance(row, NotUnderstood):
                return not_understood(group.entity, STAGE, row)
            understood.append(row)
        record = CaptionGroup(
            source=group.images[0].record(Image).source,
            coarse_captions=tuple(one.record(Caption).text for one in group.coarse),
            members=tuple(
                _member(place, image, [one.value for one in understood])
                for place, image in enumerate(group.images)
            ),
            author=self._refiner.author,
            second_language=self._second_language,
        )
        calls = tuple(self._refiner.model.key(one.request) for one in understood)
        prompt_ids = tuple(self._prompts[one.request.prompt_digest] for one in understood)
        return _Written(group, record, calls, prompt_ids)

    def _result(self, written: _Written, doubts: tuple[str, ...]) -> WorkResult:
        """The group as people judge it, and each of its captions."""
        record = written.record.model_copy(update={"doubts": doubts})
        anchor = written.group.images[0]
        entity = new_entity(
            record,
            anchor.dataset,
            parents=[
                (REFINED_FOR, written.group.entity.id),
                *((PROMPTED_BY, prompt) for prompt in sorted(set(written.prompt_ids))),
                (WRITTEN_WITH, self.settings_id),
            ],
            split=anchor.split,
            group=anchor.id,
        )
        captions = [
            self._caption(written, entity, row, place, text, language)
            for place, member in enumerate(record.members)
            for language, texts in (
                (None, member.captions),
                (record.second_language, member.translations),
            )
            for row, text in enumerate(texts)
        ]
        return WorkResult(written.group.entity.seq, (entity, *captions))

    def _caption(
        self,
        written: _Written,
        group: NewEntity,
        row: int,
        place: int,
        text: str,
        language: str | None,
    ) -> NewEntity:
        image = written.group.images[place]
        record = Caption(
            source=image.record(Image).source,
            text=text,
            position=row,
            author=self._refiner.author,
            language=language,
        )
        coarse = written.group.coarse[row]
        return new_entity(
            record,
            group.dataset,
            parents=[
                (DESCRIBES, image.id),
                (WRITTEN_IN, group.id),
                (REFINES, coarse.id),
                (PROMPTED_BY, written.prompt_ids[row]),
                (WRITTEN_WITH, self.settings_id),
            ],
            split=image.split,
            group=image.group,
            model_call=written.calls[row],
        )


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


def _member(place: int, image: StoredEntity, rows: Sequence[RefinedCaptions]) -> GroupMember:
    contrast = image.record(Image).contrast
    return GroupMember(
        picture=picture_of(image),
        captions=tuple(one.captions[place] for one in rows),
        translations=tuple(one.translations[place] for one in rows if one.translations),
        difference=contrast.difference if contrast else None,
        plan=contrast.plan if contrast else "",
    )
