"""An OpenCLIP model small enough for tests: two layers of width 64 in each tower."""

import json
from pathlib import Path
from typing import Any

from loupe.schemas.cfam import CfamBackbone, CfamDecoder, CfamMatcher, CfamTraining

ARCHITECTURE: dict[str, Any] = {
    "embed_dim": 32,
    "vision_cfg": {
        "image_size": 64,
        "layers": 2,
        "width": 64,
        "head_width": 32,
        "patch_size": 16,
    },
    "text_cfg": {
        "context_length": 77,
        "vocab_size": 49408,
        "width": 64,
        "heads": 2,
        "layers": 2,
    },
}
TEXT_TOKENS = 90
HEIGHT_PX, WIDTH_PX = 96, 32
GRID = (6, 2)


def write_architecture(folder: Path, content: Any = None) -> Path:
    """Write `content`, or the small architecture, as an OpenCLIP architecture file."""
    path = folder / "small-clip.json"
    path.write_text(json.dumps(ARCHITECTURE if content is None else content), encoding="utf-8")
    return path


def small_backbone(folder: Path, **changes: Any) -> CfamBackbone:
    """Settings of the small CLIP with random weights, for images of 96 × 32 pixels."""
    settings = CfamBackbone(
        architecture="small-clip",
        architecture_file=write_architecture(folder),
        weights=None,
        image_height_px=HEIGHT_PX,
        image_width_px=WIDTH_PX,
        text_tokens=TEXT_TOKENS,
    )
    return settings.model_copy(update=changes)


def small_training(folder: Path, **changes: Any) -> CfamTraining:
    """Settings of a CFAM on the small CLIP."""
    settings = CfamTraining(
        backbone=small_backbone(folder),
        decoder=CfamDecoder(queries=4, width=48, heads=4),
        matcher=CfamMatcher(heads=4),
    )
    return settings.model_copy(update=changes)
