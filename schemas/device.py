"""The words for what a network runs on."""

from typing import Annotated

from pydantic import Field

TorchDevice = Annotated[str, Field(pattern=r"^(auto|cpu|cuda|cuda:\d+|mps)$")]
"""`auto` is CUDA where it is there, else the CPU; the others are torch's own."""
