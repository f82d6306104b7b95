"""Names of the devices that a network runs on."""

from typing import Annotated

from pydantic import Field

TorchDevice = Annotated[str, Field(pattern=r"^(auto|cpu|cuda|cuda:\d+|mps)$")]
"""`auto` is CUDA if available, else the CPU; the others are torch's own names."""
