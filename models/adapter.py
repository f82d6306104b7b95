"""Base classes of models that are built from a specification."""

import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, Generic, TypeVar

from PIL import Image

from loupe.schemas.chat import (
    WRONG_RETURN,
    ChatAnswer,
    ChatFailure,
    ChatImage,
    ChatOutcome,
    ChatRequest,
    ModelRef,
    NamedModel,
)
from loupe.schemas.decoders import plain_picture
from loupe.schemas.errors import ConfigurationError, FormatError

SpecT = TypeVar("SpecT", bound=NamedModel)


def always() -> bool:
    """Every request may be repeated."""
    return True


_READABLE = re.compile(r"(.+_)?API_KEY|(GOOGLE_SEARCH|OPENVERSE)_.+")


def may_read(variable: str) -> bool:
    """Whether a profile may read this environment variable.

    Profiles come from other people, too: one that names another variable would send its value to a
    server of its author. `LOUPE_WORKER_VARIABLES` lists those that the user permits besides.
    """
    listed = os.environ.get("LOUPE_WORKER_VARIABLES", "").replace(",", " ").split()
    return variable in listed or _READABLE.fullmatch(variable) is not None


def secret_in(variable: str, taken: str) -> str:
    """The value of an environment variable that is sent in a header, without spaces around it.

    Args:
        variable: its name.
        taken: what takes it, for messages: "the model 'x' takes its API key".

    Raises:
        ConfigurationError: profiles may not read it, it is not set, or no header can hold it. The
            value is not shown.
    """
    if not may_read(variable):
        raise ConfigurationError(
            f"{taken} from the environment variable {variable}, which a profile may read only if "
            f"its name ends in _API_KEY or LOUPE_WORKER_VARIABLES lists it"
        )
    value = os.environ.get(variable, "").strip()
    if value and value.isascii() and value.isprintable():
        return value
    fault = "may contain only printable ASCII characters" if value else "is not set"
    raise ConfigurationError(f"{taken} from the environment variable {variable}, which {fault}")


class Adapter(Generic[SpecT]):
    """A model that its specification names and parametrizes."""

    def __init__(self, spec: SpecT) -> None:
        self._spec = spec

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the specification states them; they are what is loaded or asked."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that, with model and request, determine an answer."""
        return self._spec.parameters


class BuiltinChatModel(Adapter[SpecT], ABC):
    """A `ChatModel` that answers by rules, immediately and free of charge.

    It reads a request's `subject` and images, not its prompt. The same specification and request
    always result in the same answer.
    """

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """Yield (position, answer) of each request, in order; requests are processed one by one."""
        for position, request in enumerate(requests):
            started = perf_counter()
            try:
                text = self.text_for(request)
            except ConfigurationError as error:
                yield (
                    position,
                    ChatFailure(reason="misconfigured", detail=str(error), retriable=True),
                )
            except FormatError as error:
                yield position, _refused(str(error))
            except (OSError, Image.DecompressionBombError) as error:
                yield position, _refused(f"the image cannot be read: {error}")
            else:
                seconds = perf_counter() - started
                if isinstance(text, str):
                    outcome: ChatOutcome = ChatAnswer(
                        text=text, tokens_in=0, tokens_out=0, seconds=seconds
                    )
                else:
                    detail = f"text_for of {self.ref} must return a text; got {text!r:.80}"
                    outcome = ChatFailure(reason=WRONG_RETURN, detail=detail, retriable=False)
                yield position, outcome

    @abstractmethod
    def text_for(self, request: ChatRequest) -> str:
        """Return the text of the answer to one request.

        Raises:
            ConfigurationError: the model does not support such requests.
            FormatError: the model cannot answer it.
            OSError: its image cannot be read.
        """


def picture_of(image: ChatImage) -> Image.Image:
    """Return the image of a request, upright and in RGB.

    Raises:
        OSError: it cannot be read.
    """
    with Image.open(io.BytesIO(image.data)) as picture:
        return plain_picture(picture)


def _refused(detail: str) -> ChatFailure:
    return ChatFailure(reason="cannot_answer", detail=detail, retriable=False)
