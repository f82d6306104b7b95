"""Steps of `build-ccd` that any pipeline may have: `propose_contrasts` and `edit`.

They are found by their entry points, as those of other packages are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from loupe.api.contrasts import Contrast
from loupe.api.models import chat_model
from loupe.api.parts import OwnRun, Part, images_of, naming, pending
from loupe.db.entities import (
    AgentRef,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch_children,
    new_entity,
)
from loupe.flows.ccd.editing import Edited, EditOrder, Edits, known_pin, pin
from loupe.flows.ccd.strategies import (
    VERSION,
    StrategiesRead,
    read_strategies,
    request_repair,
    request_strategies,
)
from loupe.flows.engine.embedding import CachedEmbedder, picture_of, pinned
from loupe.flows.engine.model_step import Ask, LLMStep, Parsed, left_unanswered, run_llm_step
from loupe.flows.engine.report import Deferred, StageResult
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.scope import Scope, is_original
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import UsageError
from loupe.schemas.image_edit import EditFailure
from loupe.schemas.profile import ChatModelSpec, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection
from loupe.schemas.requests import StrategyBrief

# Contrasts, proposed by a chat model.


class _Asked(NamedTuple):
    """An image, and the brief on it."""

    image: StoredEntity
    brief: StrategyBrief


class _Contrasts(Part):
    """The strategist of the profile proposes contrasts to each image that has a caption."""

    version = VERSION
    takes = Image.kind
    makes = (Contrast.kind,)
    forms = (Contrast,)

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._most = most

    def specs(self, profile: Profile) -> Sequence[ChatModelSpec]:
        """Return the strategist."""
        return [profile.contrast.strategist]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        settings = profile.contrast
        return {
            "model": settings.strategist.ref.model_dump(),
            "parameters": settings.strategist.parameters,
            "prompt": load_prompt(settings.prompt).digest,
            "repair": load_prompt(settings.repair_prompt).digest,
            "area": settings.image_area.model_dump(),
            "most": self._most,
        }

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Image -> up to {self._most} Contrast by a chat model"

    def run(self, run: OwnRun) -> None:
        """Ask about every image that was not asked about yet."""
        scope = run.begin(self)
        settings = run.profile.contrast
        strategist = chat_model(run, settings.strategist)
        prompt, repair_prompt = load_prompt(settings.prompt), load_prompt(settings.repair_prompt)
        prompts = {one.digest: strategist.store_prompt(one).id for one in (prompt, repair_prompt)}
        refused: Counter[str] = Counter()

        def requests(images: Sequence[StoredEntity]) -> Iterator[list[Ask[_Asked]] | WorkResult]:
            texts = fetch_children(run.store, [one.id for one in images], Role.DESCRIBES)
            for image in images:
                captions = [one.record(Caption) for one in texts[image.id] if is_original(one)]
                if not captions:
                    detail = "The image has no caption of its source; a contrast needs one."
                    rejection = Rejection.of(self.name, "no_caption", detail)
                    yield WorkResult(image.seq, rejection=naming(rejection, image, image))
                    continue
                text = min(captions, key=lambda one: one.position).text
                asked = _Asked(image, StrategyBrief(caption=text, count=self._most))
                picture = strategist.picture(image)
                request = request_strategies(picture, asked.brief, prompt, settings.image_area)
                if isinstance(request, Rejection):
                    yield WorkResult(image.seq, rejection=naming(request, image, image))
                else:
                    yield [Ask(asked, request)]

        def output(answer: Parsed[_Asked, StrategiesRead]) -> WorkResult:
            refused.update(one.reason for one in answer.value.refused)
            image = answer.subject.image
            written_by = (Role.PROMPTED_BY, prompts[answer.prompt_digest])
            made = [
                new_entity(
                    Contrast(
                        detail=one.detail,
                        difference=one.difference,
                        plan=one.plan,
                        text=one.contrastive_caption,
                        instruction=one.editing_instruction,
                    ),
                    run.dataset,
                    parents=[(Role.DERIVED_FROM, image.id), written_by, *scope.links],
                    split=image.split,
                    group=image.id,
                    model_call=answer.call,
                )
                for one in answer.value.strategies
            ]
            return WorkResult(image.seq, entities=tuple(made))

        step: LLMStep[StoredEntity, _Asked, StrategiesRead] = LLMStep(
            name=self.name,
            version=self.version,
            label=self.name,
            configuration=run.plan_of(self),
            inputs=pending(run, Image.kind),
            request=requests,
            parse=lambda asked, answer: read_strategies(answer, asked.brief),
            outputs=lambda answers: [output(one) for (one,) in answers],
            repair=partial(request_repair, prompt=repair_prompt),
            chunk_size=50,  # images, which are kept in memory
        )
        run.add(run_llm_step(strategist, step, scope))
        if refused:
            said = ", ".join(f"{count:,} {reason}" for reason, count in sorted(refused.items()))
            run.say(f"{self.name}: single contrasts of answers that cannot be used: {said}")


def propose_contrasts(most: int = 5, *, name: str = "propose_contrasts") -> Part:
    """Return a step in which a chat model (`[contrast.strategist]`) proposes other images.

    Each `loupe.Contrast` is one detail in which another image is to differ from the image, with the
    caption of that image, and an instruction for an editor.

    Args:
        most: at most so many for an image.
        name: the name of the step.

    Raises:
        UsageError: `most` is less than 1.
    """
    if most < 1:
        raise UsageError(f"propose_contrasts: most must be at least 1; got {most}")
    return _Contrasts(name, most)


# Edited images.

_VERSION = "1"


class _Editing(Part):
    """The editor of the profile makes the image of each contrast; what it changed is measured."""

    version = _VERSION
    takes = Contrast.kind
    makes = (Image.kind, Caption.kind)
    forms = (Contrast,)

    def __init__(self, name: str) -> None:
        self.name = name

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the editor, and the embedder that judges its edits."""
        return [profile.contrast.editor, profile.contrast.embedder]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        editor, embedder = profile.contrast.editor, profile.contrast.embedder
        return {
            "editor": {"model": editor.ref.model_dump(), "parameters": editor.parameters},
            "embedder": str(embedder.ref),
            "check": profile.contrast.edit_check.model_dump(mode="json"),
        }

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Contrast -> Image and Caption by an editor of images"

    def run(self, run: OwnRun) -> None:
        """Make every edit that was not made yet; each is stored at once."""
        scope = run.begin(self)
        spec = run.profile.contrast.editor
        stage = Stage(
            name=self.name,
            version=self.version,
            dataset=run.dataset,
            configuration=run.plan_of(self),
            agents=(AgentRef.of_model(spec.ref),),
            chunk_size=8,  # images are kept in memory
            workers=1,
            independent=True,
        )
        making = _Making(run, self.name, self.version, scope)

        def work(contrasts: Sequence[StoredEntity]) -> list[StageResult]:
            return list(scope.passing_over(run.store, contrasts, making.results))

        report = run_stage(run.context, stage, pending(run, Contrast.kind), work)
        run.add(report)
        if left := left_unanswered(spec.ref, report):
            raise left


class _Making(NamedTuple):
    """The edits of a step."""

    run: OwnRun
    step: str
    version: str
    scope: Scope

    def results(self, contrasts: Sequence[StoredEntity]) -> list[StageResult]:
        """Return the image of each contrast with its caption, or why there is none."""
        run, settings = self.run, self.run.profile.contrast
        spec = known_pin(run.context, run.dataset, settings.editor)
        spec = spec or pin(run.context, run.dataset, settings.editor)
        embedder = CachedEmbedder(run.store, pinned(settings.embedder))
        images = images_of(run.store, contrasts)
        texts = fetch_children(run.store, [one.id for one in images.values()], Role.DESCRIBES)
        orders = []
        for one in contrasts:
            contrast, image = one.record(Contrast), images[one.id]
            captions = [text.record(Caption) for text in texts[image.id] if is_original(text)]
            orders.append(
                EditOrder(
                    subject_id=one.id,
                    anchor=picture_of(image),
                    instruction=contrast.instruction,
                    difference=contrast.difference,
                    caption=min(captions, key=lambda caption: caption.position).text,
                    wanted_caption=contrast.text,
                )
            )
        edits = Edits(run, spec, embedder).of(orders)
        return [
            self._result(contrast, images[contrast.id], edited)
            for contrast, edited in zip(contrasts, edits, strict=True)
        ]

    def _result(
        self, contrast: StoredEntity, image: StoredEntity, edited: Edited | EditFailure | Rejection
    ) -> StageResult:
        if isinstance(edited, EditFailure):
            if edited.retriable:
                return Deferred(contrast.seq, edited.reason, edited.detail)
            edited = Rejection.of(self.step, edited.reason, edited.detail)
        refusal = edited if isinstance(edited, Rejection) else edited.verdict
        if isinstance(refusal, Rejection):
            rejection = refusal.model_copy(update={"stage": self.step})
            return WorkResult(contrast.seq, rejection=naming(rejection, contrast, image))
        assert isinstance(edited, Edited)  # noqa: S101 - nothing else is left
        return WorkResult(contrast.seq, entities=self._made(contrast, image, edited))

    def _made(
        self, contrast: StoredEntity, image: StoredEntity, edited: Edited
    ) -> tuple[NewEntity, NewEntity]:
        """Return the edited image, and its caption."""
        anchor, short = image.record(Image), contrast.id[:8]
        picture, identity = edited.made.record.picture, f"{anchor.identity}-{short}"
        record = anchor.model_copy(
            update={
                **picture.model_dump(include={"sha256", "media_type", "width_px", "height_px"}),
                "identity": identity,
                "file_path": f"{PurePosixPath(anchor.file_path).with_suffix('')}-{short}.png",
                "source_sha256": picture.sha256,
            }
        )
        made_of = [(Role.DERIVED_FROM, contrast.id), *self.scope.links]
        new = new_entity(
            record,
            self.run.dataset,
            parents=[*made_of, (Role.EDITED_AS, edited.made.id)],
            split=image.split,
            group=f"{anchor.source}/{identity}",
        )
        caption = Caption(
            source=anchor.source,
            text=contrast.record(Contrast).text,
            position=0,
            author=f"{self.run.dataset}.{self.step}@{self.version}",
        )
        text = new_entity(
            caption,
            self.run.dataset,
            parents=[(Role.DESCRIBES, new.id), *made_of],
            split=image.split,
            group=new.id,
        )
        return new, text


def edit(*, name: str = "edit") -> Part:
    """Return a step in which an editor (`[contrast.editor]`) makes the image of each contrast.

    The image is kept if the change is where and what was asked for, as measured; its caption is
    that of the `loupe.Contrast`.

    Args:
        name: the name of the step.
    """
    return _Editing(name)
