"""What Pillow's decoders raise on hostile bytes."""

import struct
from typing import Final

DECODER_FAULTS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AssertionError,
    EOFError,
    MemoryError,
    struct.error,
    Warning,
)
"""Found by the fuzz test of `sources.decoding`, which holds the list."""
