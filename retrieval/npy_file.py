"""Arrays from `.npy` files."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.errors import FormatError


def read_array(path: Path) -> NDArray[np.generic]:
    """The array in a file, mapped into memory; objects, which could hold code, are not read.

    Raises:
        FormatError: the file is missing, cut, or no `.npy` of numbers.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist; wanted a .npy file") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:  # numpy's sentence advises to load it as a pickle
        raise FormatError(
            f"{path} is no .npy file, is cut, or holds objects; wanted an array of numbers"
        ) from error
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{path} must hold one array (.npy); got an archive")
    return array
