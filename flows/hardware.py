"""What machine this is: evaluations and trainings say what they ran on."""

import os
import platform
import sys
from functools import cache
from pathlib import Path

import psutil

from schemas.evaluation import Hardware

_PROCESSORS = Path("/proc/cpuinfo")


def hardware() -> Hardware:
    """This machine. A GPU is named where torch, loaded by now, sees one."""
    return Hardware(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        accelerator=_accelerator(),
    )


@cache
def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, names), platform.processor() or platform.machine())


def _accelerator() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
