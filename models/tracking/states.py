"""States as bytes: named arrays in NumPy's own format, without pickles."""

import io
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import IntegrityError

Arrays = dict[str, NDArray[Any]]


def as_bytes(arrays: Arrays) -> bytes:
    """The arrays as one value; the same arrays give the same bytes."""
    file = io.BytesIO()
    named: dict[str, Any] = arrays
    np.savez(file, **named)
    return file.getvalue()


def from_bytes(state: bytes, *wanted: str) -> Arrays:
    """The arrays that `as_bytes` was given.

    Raises:
        IntegrityError: these are not the bytes of arrays, or one of `wanted` is not among them.
    """
    try:
        with np.load(io.BytesIO(state), allow_pickle=False) as file:
            return {name: file[name] for name in wanted}
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as fault:
        raise IntegrityError(f"the saved state of a tracker cannot be read: {fault}") from fault
