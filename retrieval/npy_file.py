"""Arrays from `.npy` files."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.errors import FormatError


def read_array(path: Path) -> NDArray[np.generic]:
    """The array in a file, mapped into memory; objects, which could hold code, are not read.

    Raises:
        FormatError: the file is missing, cut, or no `.npy`.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist; wanted a .npy file") from None
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path} cannot be read as .npy: {error}") from error
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{path} must hold one array (.npy); got an archive")
    return array
