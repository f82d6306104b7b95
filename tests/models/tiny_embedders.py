"""Tiny, randomly initialised embedders of real classes, built offline in a second each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    MllmEmbedder,
    OpenClipEmbedder,
    PlainModelSpec,
    TransformersEmbedder,
)
from tests.servers import tiny_models

ARCHITECTURE: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {
        "context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1,
    },
}  # fmt: skip
_TOWER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
_WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]"),
    *("a", "man", "woman", "in", "red", "shirt", "blue", "trousers", "and", "shoes", ".", ","),
)
QWEN_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>",
               "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")  # fmt: skip


def build_open_clip(folder: Path) -> Path:
    """Save a CLIP as OpenCLIP does: a folder with configuration and weights."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    torch.manual_seed(0)
    network = open_clip.CLIP(**ARCHITECTURE)
    weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")
    configuration = {"model_cfg": ARCHITECTURE, "preprocess_cfg": {"mean": [0.5] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(configuration), encoding="utf-8")
    (folder / "tiny-clip-of-tests.json").write_text(json.dumps(ARCHITECTURE), encoding="utf-8")
    return folder


def build_clip(folder: Path) -> Path:
    """Save a `CLIPModel` with its processor."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    tokenizer = _clip_tokenizer()
    text = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id, **_TOWER}
    config = t.CLIPConfig(
        text_config={**text, "max_position_embeddings": 24},
        vision_config={"image_size": 32, "patch_size": 8, **_TOWER},
        projection_dim=16,
    )
    size = {"shortest_edge": 32}
    pictures = t.CLIPImageProcessor(size=size, crop_size={"height": 32, "width": 32})
    return _saved(folder, t.CLIPModel(config), "CLIPProcessor", pictures, tokenizer)


def build_siglip(folder: Path) -> Path:
    """Save a `SiglipModel` like SigLIP 2: fixed image size, 64 tokens, Gemma tokenizer."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    tokenizer = _gemma_tokenizer()
    config = t.SiglipConfig(
        text_config={"vocab_size": len(tokenizer), "max_position_embeddings": 64, **_TOWER},
        vision_config={"image_size": 32, "patch_size": 8, **_TOWER},
    )
    pictures = t.SiglipImageProcessor(size={"height": 32, "width": 32})
    return _saved(folder, t.SiglipModel(config), "SiglipProcessor", pictures, tokenizer)


def build_siglip2(folder: Path) -> Path:
    """Save a `Siglip2Model`, which keeps the aspect ratio of images."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    tokenizer = _gemma_tokenizer()
    config = t.Siglip2Config(
        text_config={"vocab_size": len(tokenizer), "max_position_embeddings": 64, **_TOWER},
        vision_config={"num_patches": 16, "patch_size": 8, **_TOWER},
    )
    pictures = t.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    return _saved(folder, t.Siglip2Model(config), "Siglip2Processor", pictures, tokenizer)


def build_blip2(folder: Path) -> Path:
    """Save a `Blip2ForImageTextRetrieval` with four queries."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    tokenizer = t.BertTokenizer(vocab={word: place for place, word in enumerate(_WORDS)})
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    config = t.Blip2Config(
        vision_config={"image_size": 28, "patch_size": 14, **_TOWER},
        qformer_config={
            "vocab_size": len(tokenizer) + 1,
            "encoder_hidden_size": 32,
            "use_qformer_text_input": True,
            "cross_attention_frequency": 1,
            "max_position_embeddings": 24,
            **_TOWER,
        },
        text_config={"model_type": "opt", "vocab_size": 64, "hidden_size": 16, "ffn_dim": 32,
                     "num_hidden_layers": 1, "num_attention_heads": 2, "word_embed_proj_dim": 16,
                     "max_position_embeddings": 32},
        num_query_tokens=4,
        image_text_hidden_size=16,
    )  # fmt: skip
    network = t.Blip2ForImageTextRetrieval(config)
    for weights in network.parameters():  # untrained queries are zero
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.3)
    pictures = t.BlipImageProcessor(size={"height": 28, "width": 28})
    return _saved(folder, network, "Blip2Processor", pictures, tokenizer)


def build_align(folder: Path) -> Path:
    """Save an `AlignModel`: EfficientNet for images, BERT for texts."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    tokenizer = t.BertTokenizer(vocab={word: place for place, word in enumerate(_WORDS)})
    vision = {"image_size": 32, "depth_coefficient": 0.1, "width_coefficient": 1.0,
              "depth_divisor": 8, "kernel_sizes": [3, 3], "in_channels": [32, 16],
              "out_channels": [16, 16], "depthwise_padding": [], "strides": [1, 2],
              "num_block_repeats": [1, 1], "expand_ratios": [1, 2], "hidden_dim": 16,
              "dropout_rate": 0.0}  # fmt: skip
    config = t.AlignConfig(
        text_config={"vocab_size": len(tokenizer), "max_position_embeddings": 64, **_TOWER},
        vision_config=vision,
        projection_dim=16,
    )
    pictures = t.EfficientNetImageProcessor(size={"height": 32, "width": 32})
    return _saved(folder, t.AlignModel(config), "AlignProcessor", pictures, tokenizer)


def build_altclip(folder: Path) -> Path:
    """Save an `AltCLIPModel`: the image tower of CLIP, XLM-RoBERTa for texts."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(letter, -1.0) for letter in "▁abcdefghijklmnopqrstuvwxyz"]
    tokenizer = t.XLMRobertaTokenizer(vocab=pieces)
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 96, "project_dim": 16,
            "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, **_TOWER}  # fmt: skip
    config = t.AltCLIPConfig(
        text_config=text,
        vision_config={"image_size": 32, "patch_size": 8, **_TOWER},
        projection_dim=16,
    )
    pictures = t.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    return _saved(folder, t.AltCLIPModel(config), "AltCLIPProcessor", pictures, tokenizer)


def build_blip(folder: Path) -> Path:
    """Save a `BlipForImageTextRetrieval`."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    tokenizer = t.BertTokenizer(vocab={word: place for place, word in enumerate(_WORDS)})
    config = t.BlipConfig(
        text_config={"vocab_size": len(tokenizer), "max_position_embeddings": 40,
                     "encoder_hidden_size": 32, **_TOWER},
        vision_config={"image_size": 32, "patch_size": 8, **_TOWER},
        image_text_hidden_size=16,
    )  # fmt: skip
    network = t.BlipForImageTextRetrieval(config)
    for weights in network.parameters():
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.3)
    pictures = t.BlipImageProcessor(size={"height": 32, "width": 32})
    return _saved(folder, network, "BlipProcessor", pictures, tokenizer)


def build_llava_next(folder: Path) -> Path:
    """Save a `LlavaNextForConditionalGeneration` with its processor."""
    import torch
    import transformers as t

    tokenizer = tiny_models._tokenizer(("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>"))
    torch.manual_seed(0)
    language = {
        "model_type": "mistral",
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    config = t.LlavaNextConfig(
        vision_config={"model_type": "clip_vision_model", "image_size": 32, "patch_size": 8,
                       **_TOWER, "num_hidden_layers": 2},
        text_config=language,
        image_grid_pinpoints=[[32, 64], [64, 32]],
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    auto: Any = t.AutoModelForImageTextToText
    auto.from_config(config).save_pretrained(folder)
    pictures = t.LlavaNextImageProcessor(
        size={"shortest_edge": 32},
        crop_size={"height": 32, "width": 32},
        image_grid_pinpoints=[[32, 64], [64, 32]],
    )
    _processor(
        "LlavaNextProcessor",
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template="{{ messages }}",
    ).save_pretrained(folder)
    return folder


def build_llava_onevision(folder: Path) -> Path:
    """Save a `LlavaOnevisionForConditionalGeneration` with its processor."""
    import torch
    import transformers as t

    tokenizer = tiny_models._tokenizer((*QWEN_TOKENS, "<image>", "<video>"))
    torch.manual_seed(0)
    language = {
        "model_type": "qwen2",
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    tiles = [[32, 32], [32, 64], [64, 32]]
    config = t.LlavaOnevisionConfig(
        vision_config={"model_type": "siglip_vision_model", "image_size": 32, "patch_size": 8,
                       "vision_use_head": False, **_TOWER, "num_hidden_layers": 2},
        text_config=language,
        image_grid_pinpoints=tiles,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
    )  # fmt: skip
    auto: Any = t.AutoModelForImageTextToText
    auto.from_config(config).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    _processor(
        "LlavaOnevisionProcessor",
        image_processor=t.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=tiles),
        tokenizer=tokenizer,
        video_processor=t.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template="{{ messages }}",
    ).save_pretrained(folder)
    return folder


def build_qwen2_vl(folder: Path) -> Path:
    """Save a `Qwen2VLForConditionalGeneration` with its processor."""
    import torch
    import transformers as t

    tokenizer = tiny_models._tokenizer(QWEN_TOKENS)
    ids = {
        f"{word}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for word, token in (
            ("image", "image_pad"),
            ("video", "video_pad"),
            ("vision_start", "vision_start"),
            ("vision_end", "vision_end"),
        )
    }
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1_000_000.0}
    language = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rope_parameters": rope,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    torch.manual_seed(0)
    config = t.Qwen2VLConfig(text_config=language, vision_config=vision, **ids)
    auto: Any = t.AutoModelForImageTextToText
    auto.from_config(config).save_pretrained(folder)
    size = {"shortest_edge": 28 * 28, "longest_edge": 16 * 28 * 28}
    _processor(
        "Qwen2VLProcessor",
        image_processor=t.Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=t.Qwen2VLVideoProcessor(size=size),
        chat_template="{{ messages }}",
    ).save_pretrained(folder)
    return folder


def _saved(folder: Path, network: Any, processor: str, pictures: Any, tokenizer: Any) -> Path:
    network.save_pretrained(folder)
    _processor(processor, image_processor=pictures, tokenizer=tokenizer).save_pretrained(folder)
    return folder


def _processor(kind: str, **parts: Any) -> Any:
    """Build a processor of a class that is untyped in transformers."""
    import transformers

    build: Any = getattr(transformers, kind)
    return build(**parts)


def _clip_tokenizer() -> Any:
    import transformers as t
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    tokens = [*letters, *(letter + "</w>" for letter in letters)]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    vocabulary |= {"<|startoftext|>": len(tokens), "<|endoftext|>": len(tokens) + 1}
    return t.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=24)


def _gemma_tokenizer() -> Any:
    import transformers as t

    words = [
        "<pad>",
        "<eos>",
        "<bos>",
        "<unk>",
        "<mask>",
        "▁",
        *(f"<0x{i:02X}>" for i in range(256)),
    ]
    words += [chr(code) for code in range(32, 127)]
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys(words))}
    return t.GemmaTokenizer(vocab=vocabulary, merges=[])


BUILDERS: dict[str, Callable[[Path], PlainModelSpec]] = {
    "builtin": lambda _: BuiltinEmbedder(),
    "builtin-stills": lambda _: BuiltinStillsEmbedder(),
    "open_clip": lambda folder: OpenClipEmbedder(
        provider="open_clip",
        name=f"local-dir:{build_open_clip(folder)}",
        revision="test",
        batch_size=4,
        device="cpu",
    ),
    "clip": lambda folder: _of_transformers(build_clip(folder)),
    "siglip": lambda folder: _of_transformers(build_siglip(folder)),
    "siglip2": lambda folder: _of_transformers(build_siglip2(folder)),
    "blip2": lambda folder: _of_transformers(build_blip2(folder)),
    "align": lambda folder: _of_transformers(build_align(folder)),
    "altclip": lambda folder: _of_transformers(build_altclip(folder)),
    "blip": lambda folder: _of_transformers(build_blip(folder)),
    "qwen2-vl": lambda folder: mllm_spec(build_qwen2_vl(folder), "gme"),
    "llava-next": lambda folder: mllm_spec(build_llava_next(folder), "unime-llava-next"),
    "llava-onevision": lambda folder: mllm_spec(
        build_llava_onevision(folder), "unime-llava-onevision"
    ),
}
"""Builders for each implementation: write its files to a folder, return its specification."""


def mllm_spec(folder: Path, family: str, **changes: Any) -> MllmEmbedder:
    """Return a small specification of the multimodal language model in `folder`."""
    values = {"least_pixels": 28 * 28, "most_pixels": 16 * 28 * 28, "most_tokens": 40}
    return MllmEmbedder(
        provider="mllm",
        name=str(folder),
        revision="test",
        family=family,
        dtype="float32",
        device="cpu",
        **{**values, **changes},
    )


def _of_transformers(folder: Path) -> TransformersEmbedder:
    return TransformersEmbedder(
        provider="transformers", name=str(folder), revision="test", batch_size=4, device="cpu"
    )
