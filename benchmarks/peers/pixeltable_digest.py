"""A function of `pixeltable_import`; pixeltable takes none from a script."""

import hashlib
from pathlib import Path

import pixeltable


@pixeltable.udf
def digest(path: str) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
