"""The model of a profile that a dataset is built with."""

from db.entities import AgentRef, NewEntity, StoredEntity
from flows.engine.context import RunContext
from flows.engine.model_step import RecordedChatModel
from flows.engine.runner import get_or_create_entity
from models.registry import build_chat_model
from prompts.loader import Prompt
from schemas.chat import ChatImage
from schemas.profile import ChatModelSpec
from schemas.records import Image
from schemas.video import StageSettings


class DatasetModel:
    """A model, loaded, whose every call is stored."""

    def __init__(self, context: RunContext, dataset: str, spec: ChatModelSpec) -> None:
        self.context = context
        self.dataset = dataset
        self.spec = spec
        self.model = RecordedChatModel(
            build_chat_model(spec), context.store, dataset, spec.prices, context.budget
        )

    @property
    def agent(self) -> AgentRef:
        """The model, as provenance names it."""
        return AgentRef.of_model(self.spec.ref)

    @property
    def author(self) -> str:
        """The model, as what it writes names it."""
        return str(self.spec.ref)

    def settings_of(self, stage: str, version: str, prompt: Prompt, **values: object) -> NewEntity:
        """What a stage that asks this model is set to, as an entity."""
        told = {
            "model": self.spec.ref.model_dump(),
            "parameters": self.spec.parameters,
            "prompt": prompt.digest,
            **values,
        }
        record = StageSettings(stage=stage, version=version, values=told)
        return get_or_create_entity(self.context, record, self.dataset)

    def picture(self, image: StoredEntity) -> ChatImage:
        """The picture of an image, for a request."""
        record = image.record(Image)
        data = self.context.blobs.read(record.sha256, record.media_type)
        return ChatImage(media_type=record.media_type, data=data)
