"""What the code of a user raised, as one sentence."""

import traceback
from pathlib import PurePosixPath

from pydantic import BaseModel, ValidationError

import loupe
from loupe.schemas.validation import fault_of
from loupe.schemas.wording import storable

_SHOWN_CHARACTERS = 300
_NOT_OWN = (f"{loupe.__path__[0]}/", "<")
_LIBRARIES = ("/site-packages/", "/lib/python3")

_OF_WORLD = {"ConnectionError", "Timeout", "TimeoutError", "TransportError", "APIConnectionError"}
"""Names of errors of connections, in Python, httpx, requests and the clients of model servers."""
_TRANSIENT = (408, 425, 429)


def is_of_world(error: BaseException) -> bool:
    """Tell whether trying again may help: a lost connection, a timeout, a server that is busy."""
    if any(one.__name__ in _OF_WORLD for one in type(error).__mro__):
        return True
    status = getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(status, int) and (status in _TRANSIENT or status >= 500)


def raised(error: BaseException, *forms: type[BaseModel]) -> str:
    """Return the type and text of an error, and the last line of the user's code on its way.

    Args:
        error: the error.
        forms: the records that the code makes, to name the nearest field of.
    """
    said = str(error)
    if isinstance(error, ValidationError):
        of_names = {one.__name__: one for one in forms}
        said = f"{error.title}: {fault_of(error, of_names.get(error.title))}"
    text = storable(f"{type(error).__name__}: {' '.join(said.split())[:_SHOWN_CHARACTERS]}")
    own = [one for one in traceback.extract_tb(error.__traceback__) if _is_own(one.filename)]
    if not own:
        return text
    return f"{text} ({PurePosixPath(own[-1].filename).name}, line {own[-1].lineno})"


def _is_own(file: str) -> bool:
    return not file.startswith(_NOT_OWN) and not any(one in file for one in _LIBRARIES)
