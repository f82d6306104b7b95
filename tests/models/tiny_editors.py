"""Image editors for tests: tiny pipelines of real classes with random weights, built offline."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.editor import Change, StillsEditor, say_change
from loupe.demo.worlds.stills import plan_stills
from loupe.models.image_editor import ImageEditor
from loupe.models.qwen_image_edit import QwenImageEditor
from loupe.schemas.chat import ChatImage
from loupe.schemas.image_edit import BuiltinEditor, EditRequest, QwenImageEdit
from tests.models.tiny_embedders import QWEN_TOKENS
from tests.servers import tiny_models

AREA_PX = 64 * 64
SIZE = (48, 40)


class Subject(NamedTuple):
    """An editor under test, and valid requests for different images."""

    editor: ImageEditor
    requests: tuple[EditRequest, ...]


def picture_of(image: Image.Image) -> ChatImage:
    """Encode an image for a request."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return ChatImage(media_type="image/png", data=buffer.getvalue())


def noise(seed: int, size: tuple[int, int] = SIZE) -> Image.Image:
    """Return an image of blocks in random colours."""
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)


def build_pipeline(folder: Path, *, plus: bool = False) -> Path:
    """Save a `QwenImageEditPipeline` (or Plus) with all its parts in `folder`."""
    import diffusers
    import torch
    import transformers

    d: Any = diffusers
    t: Any = transformers
    torch.manual_seed(0)
    tokenizer = tiny_models._tokenizer(QWEN_TOKENS)
    channels = 4
    pixels = {"min_pixels": 28 * 28, "max_pixels": 4 * 28 * 28}
    images, videos = t.Qwen2VLImageProcessor(**pixels), t.Qwen2VLVideoProcessor()
    parts = {
        "transformer": d.QwenImageTransformer2DModel(
            in_channels=4 * channels,
            out_channels=channels,
            num_layers=1,
            num_attention_heads=2,
            attention_head_dim=16,
            joint_attention_dim=16,
            axes_dims_rope=(8, 4, 4),
        ),
        "vae": d.AutoencoderKLQwenImage(
            base_dim=8,
            z_dim=channels,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * channels,
            latents_std=[1.0] * channels,
        ),
        "scheduler": d.FlowMatchEulerDiscreteScheduler(),
        "text_encoder": t.Qwen2_5_VLForConditionalGeneration(
            _text_encoder_config(tokenizer)
        ).eval(),
        "tokenizer": tokenizer,
        "processor": t.Qwen2VLProcessor(
            image_processor=images, tokenizer=tokenizer, video_processor=videos
        ),
    }
    kind = d.QwenImageEditPlusPipeline if plus else d.QwenImageEditPipeline
    kind(**parts).save_pretrained(folder)
    return folder


def _text_encoder_config(tokenizer: Any) -> Any:
    """Return the configuration of the text encoder, which reads image and instruction."""
    import transformers as t

    ids = {
        f"{word}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for word, token in (
            ("image", "image_pad"),
            ("video", "video_pad"),
            ("vision_start", "vision_start"),
            ("vision_end", "vision_end"),
        )
    }
    language = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "rope_parameters": {
            "rope_type": "default",
            "mrope_section": [1, 1, 2],
            "rope_theta": 1_000_000.0,
        },
        "max_position_embeddings": 4096,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 16,
        "patch_size": 14,
        "window_size": 56,
        "fullatt_block_indexes": [0],
    }
    return t.Qwen2_5_VLConfig(text_config=language, vision_config=vision, **ids)


def qwen_spec(folder: Path, **changes: Any) -> QwenImageEdit:
    """Return a small and fast specification of the pipeline in `folder`."""
    values = {"steps": 2, "area_px": AREA_PX, "device": "cpu", "revision": "test", **changes}
    return QwenImageEdit(provider="qwen-image-edit", name=str(folder), **values)


def _qwen(folder: Path, *, plus: bool) -> Subject:
    spec = qwen_spec(build_pipeline(folder, plus=plus), plus=plus)
    options = ("make the sky blue", "remove the dog, and put a red car there")
    requests = (
        EditRequest(image=picture_of(noise(place)), instruction=text, seed=place)
        for place, text in enumerate(options)
    )
    return Subject(QwenImageEditor(spec), tuple(requests))


def _stills() -> Subject:
    flat = [truth.scene for truth in plan_stills(11, 12) if truth.scene.style == "flat drawing"]
    requests = (
        EditRequest(
            image=picture_of(draw_still(scene)),
            instruction=say_change(Change("style", "pencil sketch")),
            seed=place,
        )
        for place, scene in enumerate(flat[:2])
    )
    return Subject(StillsEditor(BuiltinEditor()), tuple(requests))


EDITORS: dict[str, Callable[[Path], Subject]] = {
    "builtin": lambda _: _stills(),
    "qwen-image-edit": lambda folder: _qwen(folder, plus=False),
    "qwen-image-edit-plus": lambda folder: _qwen(folder, plus=True),
}
"""Builders of the subject for each implementation; their argument is a new folder."""
