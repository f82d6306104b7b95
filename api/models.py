"""Models of the profile, as steps use them: a parameter of one of these types is filled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
from PIL import Image as Pillow
from pydantic import BaseModel

from loupe.api.parts import OwnRun
from loupe.api.schemas import answer_schema_of, record_of
from loupe.api.values import Box, Image, UnansweredError
from loupe.flows.answers import read_answer
from loupe.flows.engine.model_step import DatasetModel, ask
from loupe.models.embedding import ImageTextEmbedder, Vectors
from loupe.models.registry import build_detector, build_embedder, build_pose_model
from loupe.models.tracking.detector import Frame
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatRequest, NamedModel
from loupe.schemas.profile import ChatModelSpec, Profile
from loupe.schemas.records import Rejection as StageRejection
from loupe.schemas.video import Body

ModelT = TypeVar("ModelT", bound=BaseModel)


class ChatModel:
    """The chat model of the profile. Each answer is stored and paid for once."""

    def __init__(self, model: DatasetModel, purpose: str) -> None:
        self._model = model
        self._purpose = purpose

    @overload
    def ask(self, prompt: str, images: Sequence[Image] = ()) -> str: ...

    @overload
    def ask(self, prompt: str, images: Sequence[Image] = (), *, answer: type[ModelT]) -> ModelT: ...

    def ask(
        self, prompt: str, images: Sequence[Image] = (), *, answer: type[BaseModel] | None = None
    ) -> str | BaseModel:
        """Return the answer as a text, or as the class `answer`.

        Raises:
            UnansweredError: the model gave none; a step lets it pass.
        """
        request = ChatRequest(
            purpose=self._purpose,
            prompt=prompt,
            prompt_digest=digest_of(self._purpose),
            images=tuple(ChatImage(media_type=one.media_type, data=one.data) for one in images),
            answer_schema=answer_schema_of(answer) if answer else None,
        )
        outcome = ask(self._model.model, [request]).get(0)
        if isinstance(outcome, ChatFailure):
            raise UnansweredError(outcome.reason, outcome.detail, is_temporary=outcome.retriable)
        if not isinstance(outcome, ChatAnswer):
            raise UnansweredError("not_asked", "The request was not sent.", is_temporary=True)
        if answer is None:
            return outcome.text
        found = read_answer(outcome, self._purpose, lambda fields: record_of(answer, fields))
        if isinstance(found, StageRejection):
            raise UnansweredError(found.reason, found.detail, answer=outcome.text)
        return found


class Embedder:
    """The embedder of the profile, for images and texts in one space."""

    def __init__(self, model: ImageTextEmbedder) -> None:
        self._model = model

    def images(self, images: Sequence[Image]) -> Vectors:
        """Return a vector of unit length for each image, of shape (n, d)."""
        return self._model.embed_images([one.open() for one in images])

    def texts(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of unit length for each text, of shape (n, d)."""
        return self._model.embed_texts(texts)

    def similarity(self, image: Image, text: str) -> float:
        """Return the cosine of an image and a text."""
        return float(self.images([image])[0] @ self.texts([text])[0])


class Detector:
    """The person detector of the profile."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def detect(self, image: Image) -> list[Box]:
        """Return the people in an image, in decreasing order of score."""
        found = self.model.detect(Frame(0, 0.0, image.pixels))
        places = zip(found.boxes_xyxy.tolist(), found.scores.tolist(), strict=True)
        return [Box._make((*sides, score)) for sides, score in places]


class PoseModel:
    """The pose model of the profile."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def body(self, image: Image, box: Box) -> Body:
        """Return how much of the person in a box is visible; of 17 keypoints, as in COCO."""
        return self._model.body(_pixels(image.crop(box)))  # type: ignore[no-any-return]


def _pixels(picture: Pillow.Image) -> Any:
    return np.asarray(picture.convert("RGB"), np.uint8)


@dataclass(frozen=True)
class ModelKind:
    """How a type of models is filled: the profile's specification, and what builds the model.

    `build` is None for chat models, whose calls are stored, so that they need the run.
    """

    spec: Callable[[Profile], NamedModel | None]
    build: Callable[[Any], Any] | None
    missing: str


MODELS: dict[type, ModelKind] = {
    ChatModel: ModelKind(lambda profile: profile.captioning.model, None, "captioning.model"),
    Embedder: ModelKind(
        lambda profile: profile.captioning.embedder,
        lambda spec: Embedder(build_embedder(spec)),
        "captioning.embedder",
    ),
    Detector: ModelKind(
        lambda profile: profile.tracking.detector,
        lambda spec: Detector(build_detector(spec)),
        "tracking.detector",
    ),
    PoseModel: ModelKind(
        lambda profile: profile.filter.pose_model,
        lambda spec: PoseModel(build_pose_model(spec)),
        "filter.pose_model",
    ),
}
"""The types of models that a step may ask for."""


def chat_model(run: OwnRun, spec: ChatModelSpec) -> DatasetModel:
    """Return a chat model for the dataset of a run, the same for the same specification."""
    key = canonical_json(spec.model_dump(mode="json"))
    if key not in run.shared:
        run.shared[key] = DatasetModel(run.context, run.dataset, spec)
    found: DatasetModel = run.shared[key]
    return found


def build_model(form: type, spec: NamedModel) -> Any:
    """Return the model of a type that is no chat model, loaded."""
    build = MODELS[form].build
    return None if build is None else build(spec)
