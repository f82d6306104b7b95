"""Training steps of the full-size CFAM compared with its bare CLIP: pairs/s, memory, FLOPs."""

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from loupe.schemas.cfam import CfamBackbone, CfamLosses, CfamTraining

_PRODUCT_SIDE = {"cuda": 8192, "cpu": 2048}
_PAIRS = {"cuda": 64, "cpu": 4}
_STEPS = {"cuda": 20, "cpu": 1}
_IDENTITIES = 4926  # of UFine6926's train split


class Steps(NamedTuple):
    """Measurements of training steps; `rate` is in floating-point operations per second."""

    parameters: int
    pairs_per_second: float
    gibibytes: float
    operations: int
    rate: float


def measure_steps() -> None:
    """Print the table; utilisation is relative to a large matrix product of the same precision."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device.type == "cuda"
    backbone = CfamBackbone(weights=None)
    bare = CfamLosses(global_sdm=0, local_sdm=0, matching=0, identity=0, info_nce=1)
    product = product_rate(device)
    name = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    title = (
        f"ViT-B/16, 384 × 128, 168 tokens, {_PAIRS[device.type]} pairs, "
        f"{'bf16' if on_gpu else 'float32'}, {name}; a matrix product runs at "
        f"{product / 1e12:.2f} TFLOP/s"
    )
    columns = ("network", "parameters", "pairs/s", "GiB", "TFLOP per step", "of the product rate")
    table = Table(*columns, title=title, title_justify="left")
    for label, losses in (("bare CLIP", bare), ("CFAM", CfamLosses())):
        found = steps_of(CfamTraining(backbone=backbone, losses=losses), device)
        table.add_row(
            label,
            f"{found.parameters / 1e6:.1f} M",
            f"{found.pairs_per_second:.2f}",
            f"{found.gibibytes:.1f}",
            f"{found.operations / 1e12:.2f}",
            f"{100 * found.rate / product:.0f} %",
        )
    Console(width=140).print(table)


def product_rate(device: Any) -> float:
    """Floating-point operations per second of a large square product in the same precision."""
    import torch

    side = _PRODUCT_SIDE[device.type]
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    left = torch.randn(side, side, device=device, dtype=dtype)
    seconds = _seconds(lambda: left @ left, device, 10)
    return 2 * side**3 / seconds


def steps_of(settings: CfamTraining, device: Any) -> Steps:
    """Measure steps on random images and texts, including the optimiser."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from loupe.retrieval.cfam.network.model import Cfam, total_loss
    from loupe.retrieval.cfam.network.pairs import END, START

    pairs, size = _PAIRS[device.type], settings.backbone
    model = Cfam(settings, _IDENTITIES).to(device)
    adam = torch.optim.Adam(model.parameters(), lr=1e-5, fused=device.type == "cuda")
    pixels = torch.randn(pairs, 3, size.image_height_px, size.image_width_px, device=device)
    tokens = torch.randint(START, (pairs, size.text_tokens), device=device)
    tokens[:, 0], tokens[:, -1] = START, END
    identities = torch.arange(pairs, device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            losses = model(pixels, tokens, identities)
        total_loss(losses, settings.losses).backward()  # type: ignore[no-untyped-call]
        adam.step()
        adam.zero_grad()

    with FlopCounterMode(display=False) as counter:
        step()
    operations = int(counter.get_total_flops())
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = _seconds(step, device, _STEPS[device.type])
    parameters = sum(one.numel() for one in model.parameters())
    return Steps(parameters, pairs / seconds, _gibibytes(device), operations, operations / seconds)


def _seconds(work: Callable[[], object], device: Any, times: int) -> float:
    """Mean seconds of `times` runs after a warm-up run."""
    import torch

    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / times


def _gibibytes(device: Any) -> float:
    """Peak memory of the GPU, or of this process so far."""
    import torch

    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated()) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    measure_steps()
