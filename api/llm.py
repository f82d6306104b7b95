"""Steps that ask a chat model, made of a prompt file and the class of the answer."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loupe.api.models import MODELS, ChatModel, chat_model
from loupe.api.parts import OwnRun, Part, Place, originals_of, pending
from loupe.api.records import Record, own_forms
from loupe.api.schemas import answer_schema_of, record_of
from loupe.api.signatures import checking_arguments, kind_of
from loupe.api.values import Caption, Image
from loupe.db.entities import NewEntity, StoredEntity, WorkResult, new_entity
from loupe.flows.answers import (
    UnusableAnswerError,
    object_schema,
    only_field,
    read_answer,
    read_text,
    text_schema,
)
from loupe.flows.engine.model_step import (
    Ask,
    DatasetModel,
    LLMStep,
    Parsed,
    model_settings,
    run_llm_step,
)
from loupe.flows.engine.rejections import images_of
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas import records
from loupe.schemas.base import EntityRecord
from loupe.schemas.chat import ChatAnswer, ChatRequest
from loupe.schemas.errors import UsageError
from loupe.schemas.profile import ChatModelSpec, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.validation import nearest_hint

_FIELD = "captions"
_MOST_CHARACTERS = 2000
_NO_STYLE = ""


class _Subject(NamedTuple):
    """What a request is about, and the style that is asked for."""

    entity: StoredEntity
    image: StoredEntity | None
    style: str


class ModelStep(Part):
    """A step that asks a chat model of the profile about each input."""

    def __init__(
        self,
        name: str,
        prompt: str | Path,
        version: str,
        takes: type,
        gives: type,
        per_item: int,
        styles: Sequence[str],
        most_characters: int,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.prompt = str(prompt)
        self.form_taken = takes
        self.takes = kind_of(takes)
        self.gives = gives
        self.per_item = per_item
        self.styles = tuple(styles) or (_NO_STYLE,)
        self.most_characters = most_characters
        self.folder = folder
        self.makes = (kind_of(gives),)
        self.forms = own_forms(takes, gives)

    def placed(self, place: Place) -> None:
        """Take the prompt from the folder of its pipeline, if it is a file."""
        if self.prompt.endswith(".md"):
            self.folder = place.folder

    @property
    def loaded(self) -> Prompt:
        """The prompt; see `loupe.prompts.loader.load_prompt`."""
        place = str(self.folder / self.prompt) if self.folder else self.prompt
        prompt = load_prompt(place, needs_header=False)
        fields = self.form_taken.model_fields if issubclass(self.form_taken, Record) else ()
        known = {*_VARIABLES, *fields}
        if unknown := sorted(set(prompt.variables) - known):
            raise UsageError(
                f"{self.prompt} uses {{{{ {unknown[0]} }}}}, which a step on "
                f"{self.form_taken.__name__} does not have; {nearest_hint(unknown[0], known)}"
            )
        return prompt

    def spec(self, profile: Profile) -> ChatModelSpec:
        """Return the model of the profile."""
        return MODELS[ChatModel].spec(profile)  # type: ignore[return-value]

    def specs(self, profile: Profile) -> list[ChatModelSpec]:
        """Return the model that it asks."""
        return [self.spec(profile)]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        return model_settings(
            self.spec(profile),
            self.loaded,
            takes=self.takes,
            gives=kind_of(self.gives),
            schema=self._schema(),
            per_item=self.per_item,
            styles=list(self.styles),
        )

    def chosen(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return its styles and how many it makes of each, if they are stated."""
        chosen: dict[str, Any] = {}
        if self.styles != (_NO_STYLE,):
            chosen["styles"] = ", ".join(self.styles)
        if self.per_item > 1:
            chosen["per_item"] = self.per_item
        return chosen

    def described(self) -> str:
        """Return its name, and what it takes and gives."""
        takes, gives = self.form_taken.__name__, self.gives.__name__
        return f"{self.name}: {takes} -> {gives} by a chat model with {Path(self.prompt).name}"

    def _schema(self) -> dict[str, Any]:
        if self.gives is not Caption:
            return answer_schema_of(self.gives)
        most = {"minItems": self.per_item, "maxItems": self.per_item}
        return object_schema({_FIELD: {"type": "array", "items": text_schema(), **most}})

    def run(self, run: OwnRun) -> None:
        """Ask about all inputs that have no result yet."""
        scope = run.begin(self)
        model, prompt = chat_model(run, self.spec(run.profile)), self.loaded
        links = [(Role.PROMPTED_BY, model.store_prompt(prompt).id), *scope.links]

        def requests(inputs: Sequence[StoredEntity]) -> Iterator[list[Ask[_Subject]]]:
            images = images_of(run.store, inputs)
            texts = originals_of(run.store, list(images.values()))
            for one in inputs:
                image = images.get(one.id)
                about = texts[image.id] if image else []
                subjects = [_Subject(one, image, style) for style in self.styles]
                yield [Ask(two, self._request(model, prompt, two, about)) for two in subjects]

        step: LLMStep[StoredEntity, _Subject, tuple[Any, ...]] = LLMStep(
            name=self.name,
            version=self.version,
            label=self.name,
            configuration=run.plan_of(self),
            inputs=pending(run, self.takes),
            request=requests,
            parse=lambda _, answer: self.parsed(answer),
            outputs=lambda chunk: [self._result(one, model, links) for one in chunk],
        )
        run.add(run_llm_step(model, step, scope))

    def _request(
        self, model: DatasetModel, prompt: Prompt, subject: _Subject, about: Sequence[StoredEntity]
    ) -> ChatRequest:
        found = _variables(subject.entity, about)
        found |= {"style": subject.style, "count": str(self.per_item)}
        values = {name: found[name] for name in prompt.variables}
        images = []
        if self.form_taken is Image and subject.image is not None:
            images = [model.picture(subject.image)]
        return prompt.request(
            self.name, values, subject=found["text"], images=images, answer_schema=self._schema()
        )

    def parsed(self, answer: ChatAnswer) -> tuple[Any, ...] | records.Rejection:
        """Return the records or texts of an answer, or why it cannot be used."""

        def captions(found: dict[str, Any]) -> tuple[str, ...]:
            listed = only_field(found, _FIELD)
            if not isinstance(listed, list) or len(listed) != self.per_item:
                detail = f"{_FIELD!r} must be a list of {self.per_item} texts."
                raise UnusableAnswerError("wrong_type", detail)
            texts = [read_text(one, "A caption", self.most_characters) for one in listed]
            if len(set(texts)) < len(texts):
                raise UnusableAnswerError("repetition", "The captions repeat each other.")
            return tuple(texts)

        def record(found: dict[str, Any]) -> tuple[EntityRecord]:
            return (record_of(self.gives, found),)

        return read_answer(answer, self.name, captions if self.gives is Caption else record)

    def _result(
        self,
        answers: Sequence[Parsed[_Subject, tuple[Any, ...]]],
        model: DatasetModel,
        links: list[tuple[Role, str]],
    ) -> WorkResult:
        made: list[NewEntity] = []
        for answer in answers:
            for value in answer.value:
                made.append(self._made(answer, value, len(made), model, links))
        return WorkResult(answers[0].subject.entity.seq, entities=tuple(made))

    def _made(
        self,
        answer: Parsed[_Subject, Any],
        value: Any,
        place: int,
        model: DatasetModel,
        links: list[tuple[Role, str]],
    ) -> NewEntity:
        entity, image, _ = answer.subject
        if isinstance(value, str) and image is not None:
            above = [(Role.DERIVED_FROM, entity.id)] if entity.id != image.id else []
            return model.caption(image, value, place, [*above, *links], answer.call)
        return new_entity(
            value,
            entity.dataset,
            parents=[(Role.DERIVED_FROM, entity.id), *links],
            split=entity.split,
            group=image.id if image else entity.group,
            model_call=answer.call,
        )


def require_list(name: str, values: Sequence[str]) -> None:
    """Refuse a single text, which would be read letter by letter.

    Raises:
        UsageError: it is one.
    """
    if isinstance(values, str):
        raise UsageError(f"{name} must be a list of texts, such as [{values!r}]; got {values!r}")


_VARIABLES = ("captions", "identity", "text", "count", "style")
"""What a prompt may use; of a record of one's own, also its fields."""


def _variables(entity: StoredEntity, about: Sequence[StoredEntity]) -> dict[str, str]:
    """Return the values that a prompt may use about an input, with the source's texts about it."""
    captions = "\n".join(one.record(records.Caption).text for one in about)
    values = {"captions": captions, "identity": str(entity.group), "text": captions}
    if entity.kind == records.Image.kind:
        values["identity"] = entity.record(records.Image).identity
    elif entity.kind == records.Caption.kind:
        values["text"] = entity.record(records.Caption).text
    else:
        fields: dict[str, Any] = json.loads(entity.payload)
        values |= {name: _shown(one) for name, one in fields.items()}
        values["text"] = entity.payload
    return values


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


@checking_arguments
def llm_step(
    prompt: str | Path,
    *,
    inputs: type = Image,
    outputs: type = Caption,
    version: str = "1",
    per_item: int = 1,
    styles: Sequence[str] = (),
    name: str = "",
    most_characters: int = _MOST_CHARACTERS,
) -> ModelStep:
    """Return a step that asks the chat model of the profile about each input.

    The class in `outputs` gives the schema of the answer. An answer that does not fit it is
    rejected with the reason; additional fields are ignored. Every answer is stored before it is
    read.

    Args:
        prompt: a Markdown file beside the pipeline, or the name of a prompt of Loupe. It may use
            `{{ captions }}` and `{{ identity }}`, `{{ text }}` of a caption, the fields of a
            record, `{{ style }}` and `{{ count }}`. If `inputs` is `loupe.Image`, the image is
            sent with it.
        inputs: `loupe.Image`, `loupe.Caption` or a class of `loupe.Record`.
        outputs: `loupe.Caption`, or a class of `loupe.Record`.
        version: raise it if answers should be read in another way. Another prompt counts as
            another version by itself.
        per_item: the number of captions in one answer.
        styles: one request is sent for each style.
        name: the name of the step (default: that of the prompt).
        most_characters: the maximum length of a caption.

    Raises:
        UsageError: the classes cannot be used.
    """
    for what, form in (("inputs", inputs), ("outputs", outputs)):
        is_own = issubclass(form, Record)
        allowed = (Image, Caption) if what == "inputs" else (Caption,)
        if not is_own and form not in allowed:
            raise UsageError(
                f"llm_step({str(prompt)!r}): {what} must be "
                f"{' or '.join(f'loupe.{one.__name__}' for one in allowed)} or a class of "
                f"loupe.Record; got {getattr(form, '__name__', form)}"
            )
    require_list("styles", styles)
    if per_item < 1 or (per_item > 1 and outputs is not Caption):
        raise UsageError(f"llm_step({str(prompt)!r}): per_item is for captions; got {per_item}")
    stem = Path(prompt).stem
    return ModelStep(
        name or stem, prompt, version, inputs, outputs, per_item, styles, most_characters
    )
