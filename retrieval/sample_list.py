"""Lists of samples in JSON files, validated."""

import json
from collections.abc import Sized
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError

from schemas.errors import FormatError
from schemas.faults import fault_of

Name = Annotated[str, Field(min_length=1)]


class Sample(BaseModel):
    """A sample of a benchmark; unknown fields are ignored."""

    image: Name


SampleT = TypeVar("SampleT", bound=Sample)


def read_list(path: Path) -> object:
    """The content of a JSON file.

    Raises:
        FormatError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} must be a JSON list of samples; it is not JSON: {error}"
        ) from None


def listed_samples(listed: object, form: type[SampleT], name: str) -> list[SampleT]:
    """The samples of a list; `name` is the list's name in messages.

    Raises:
        FormatError: it is not a list or empty, a sample is invalid, or an image is listed twice.
    """
    if not isinstance(listed, list) or not listed:
        raise FormatError(f"{name} must be a list of at least one sample; got {listed!r:.80}")
    samples: list[SampleT] = []
    first: dict[str, int] = {}
    for at, value in enumerate(listed):
        try:
            sample = form.model_validate(value)
        except ValidationError as error:
            raise FormatError(f"{place(name, at)}: {fault_of(error, form)}") from None
        if first.setdefault(sample.image, at) != at:
            raise FormatError(
                f"{name} must list each image once; {sample.image!r} is sample "
                f"{first[sample.image]} and sample {at} (from 0)"
            )
        samples.append(sample)
    return samples


def check_rows(rows: Sized, wanted: int, name: str, rule: str) -> None:
    """Raises `FormatError` unless embeddings have as many rows as the samples need."""
    if len(rows) != wanted:
        raise FormatError(f"{name} must have {wanted:,} rows, {rule}; got {len(rows):,}")


def place(name: str, at: int) -> str:
    """The position of a sample, for messages."""
    return f"{name}: sample {at} (from 0)"
