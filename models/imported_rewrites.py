"""Existing rewrites from a file of pairs, used instead of a model."""

import io
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from loupe.models.adapter import BuiltinChatModel
from loupe.schemas.base import sha256_of
from loupe.schemas.chat import ChatRequest
from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.schemas.faithfulness import RewritePair
from loupe.schemas.grouping import grouped
from loupe.schemas.json_stream import unique_fields
from loupe.schemas.profile import ImportedRewrites
from loupe.schemas.text_files import as_utf8
from loupe.schemas.validation import fault_of

EACH_LINE: Final = 'each line must be {"source": "…", "rewrite": "…"}'


class ImportedRewritesModel(BuiltinChatModel[ImportedRewrites]):
    """Answers with the file's rewrite of a request's subject, ignoring white space.

    A description without a rewrite is refused.
    """

    def text_for(self, request: ChatRequest) -> str:
        """The rewrite, as JSON."""
        spec = self._spec
        found = self._rewrites.get(_key(request.subject), [])
        if len(found) < spec.number:
            raise FormatError(
                f"{spec.path.name} has {len(found)} rewrites of this description, "
                f"wanted number {spec.number}"
            )
        return json.dumps({"rewrite": found[spec.number - 1]}, ensure_ascii=False)

    @cached_property
    def _rewrites(self) -> dict[str, list[str]]:
        spec = self._spec
        data = _read(spec.path)
        if spec.sha256 != sha256_of(data):
            raise ConfigurationError(
                f"{spec.path} is not the file that the profile names by sha256, or changed while "
                f"it was read; run again"
            )
        pairs = read_pairs(data, str(spec.path))
        return grouped((_key(pair.source), pair.rewrite) for pair in pairs)


def read_pairs(data: bytes, name: str) -> Iterator[RewritePair]:
    """The pairs of JSON lines; other fields are ignored and blank lines skipped.

    Args:
        data: a text file, `{"source": "…", "rewrite": "…"}` in each line.
        name: what to call it in messages.

    Raises:
        FormatError: a line is something else.
    """
    for number, line in enumerate(as_utf8(io.BytesIO(data), name).read().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, object_pairs_hook=unique_fields)
            if not isinstance(found, dict):
                raise TypeError("it is no object")  # noqa: TRY301 - as other lines that are none
            texts = {key: found[key] for key in ("source", "rewrite") if key in found}
            yield RewritePair.model_validate(texts)
        except (ValueError, TypeError, RecursionError) as error:
            broken = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
            fault = "not JSON" if broken else fault_of(error, RewritePair)
            if number == 1 and line.lstrip().startswith(b"["):
                fault = "it begins a JSON list"
            raise FormatError(f"{name}, line {number}: {fault}; {EACH_LINE}") from error


def read_pairs_of(path: Path) -> Iterator[RewritePair]:
    """`read_pairs` of a file; raises `FormatError` if it cannot be read, too."""
    return read_pairs(_read(path), str(path))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror})") from error


def _key(text: str) -> str:
    return " ".join(text.split())
