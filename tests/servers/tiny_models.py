"""Tiny, randomly initialised models of real classes, built offline in a second or two.

Their output is meaningless, but they load, tokenise, batch and sample like the published models.
Byte-level BPE is used because training it is reproducible and it can represent every string.
"""

import json
from pathlib import Path
from typing import Any

_SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_CORPUS = (
    "A woman with long black hair wears a dark blue jacket, grey trousers and white sneakers.",
    "A man in a red T-shirt carries a backpack on his left shoulder and walks across the street.",
    'Say the description in another way. Answer as JSON: {"rewrite": "…"}.',
    "system user assistant yes no 0 1 2 3 4 5 6 7 8 9",
)
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    "{% if part.type in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# vLLM's attention on a CPU refuses heads smaller than 32.
_LANGUAGE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 8192,
    "bos_token_id": None,
}


def build_tiny_qwen3(folder: Path) -> Path:
    """Save a text model of class `Qwen3ForCausalLM` with its tokenizer in `folder`."""
    import torch
    import transformers

    tokenizer = _tokenizer(_SPECIAL_TOKENS)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **_LANGUAGE,
    )
    auto: Any = transformers.AutoModelForCausalLM
    auto.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build_tiny_qwen3_vl(folder: Path) -> Path:
    """Save a model of class `Qwen3VLForConditionalGeneration` with its processor in `folder`."""
    import torch
    import transformers

    tokenizer = _tokenizer((*_SPECIAL_TOKENS, *_VISION_TOKENS))
    token_ids = {
        f"{word}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for word, token in (
            ("image", "image_pad"),
            ("video", "video_pad"),
            ("vision_start", "vision_start"),
            ("vision_end", "vision_end"),
        )
    }
    rope = {
        "rope_type": "default",
        "mrope_section": [6, 5, 5],
        "mrope_interleaved": True,
        "rope_theta": 5_000_000.0,
    }
    language = {"vocab_size": len(tokenizer), "rope_parameters": rope, **_LANGUAGE}
    language |= {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    vision = {
        "depth": 3,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 16,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1],
    }
    torch.manual_seed(0)
    config = transformers.Qwen3VLConfig(text_config=language, vision_config=vision, **token_ids)
    auto: Any = transformers.AutoModelForImageTextToText
    model = auto.from_config(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    side_px = {"shortest_edge": 32**2, "longest_edge": 128**2}
    processor: Any = transformers.Qwen3VLProcessor
    processor(
        image_processor=transformers.Qwen2VLImageProcessor(patch_size=16, size=side_px),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen3VLVideoProcessor(patch_size=16),
        chat_template=_CHAT_TEMPLATE,
    ).save_pretrained(folder)
    return folder


def _tokenizer(special_tokens: tuple[str, ...]) -> Any:
    """Return a tokenizer of Qwen's class with a small vocabulary that contains every byte."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(_CORPUS * 20, trainer)
    trained = json.loads(bpe.to_str())["model"]
    merges: Any = [tuple(pair) for pair in trained["merges"]]
    tokenizer = Qwen2Tokenizer(
        vocab=trained["vocab"],
        merges=merges,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=_LANGUAGE["max_position_embeddings"],
    )
    tokenizer.add_special_tokens({"extra_special_tokens": list(special_tokens)})
    tokenizer.chat_template = _CHAT_TEMPLATE
    return tokenizer
