"""Which CLIPs CFAM can be built on, and their architectures in OpenCLIP's form."""

import json
from collections.abc import Mapping
from typing import Any

from schemas.cfam import CfamBackbone
from schemas.errors import ModelError

Architecture = Mapping[str, Any]
"""What OpenCLIP's `CLIP` is built from: `embed_dim`, `vision_cfg`, `text_cfg`, `quick_gelu` …"""

VOCABULARY = 49408
"""Tokens of CLIP's vocabulary, start and end included."""
_PARTS = {"embed_dim": int, "vision_cfg": dict, "text_cfg": dict}
_STRANGE_VISION = ("timm_model_name", "attentional_pool")
_STRANGE_TEXT = ("hf_model_name", "hf_tokenizer_name", "embed_cls", "no_causal_mask")


def read_architecture(settings: CfamBackbone) -> Architecture:
    """The architecture that `settings` name, checked.

    Raises:
        ModelError: OpenCLIP knows no such name, the file cannot be read, or it is no CLIP of a
            vision transformer and a causal text transformer over CLIP's own vocabulary.
    """
    if settings.architecture_file is None:
        return checked_architecture(_known(settings.architecture), repr(settings.architecture))
    try:
        content = json.loads(settings.architecture_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"the architecture file cannot be read: {reason}") from error
    return checked_architecture(content, str(settings.architecture_file))


def _known(name: str) -> Any:
    import open_clip

    architecture = open_clip.get_model_config(name.replace("/", "-"))
    if architecture is None:
        raise ModelError(
            f"OpenCLIP knows no architecture {name!r}; see open_clip.list_models(), "
            "or describe one in architecture_file"
        )
    return architecture


def checked_architecture(content: Any, where: str) -> Architecture:
    """`content`, if it is an architecture that CFAM can be built on.

    Raises:
        ModelError: it is not; the sentence names `where` and why.
    """
    if not _has_parts(content):
        raise ModelError(f"{where} is no architecture of OpenCLIP; wanted {', '.join(_PARTS)}")
    reason = _strange(content, content["vision_cfg"], content["text_cfg"])
    if reason:
        raise ModelError(
            f"CFAM cannot be built on {where}: {reason}; wanted a vision transformer and a causal "
            f"text transformer over CLIP's vocabulary of {VOCABULARY}"
        )
    architecture: Architecture = content
    return architecture


def _has_parts(content: Any) -> bool:
    return isinstance(content, dict) and all(
        isinstance(content.get(name), kind) for name, kind in _PARTS.items()
    )


def _strange(whole: Architecture, vision: Architecture, text: Architecture) -> str | None:
    if "multimodal_cfg" in whole:
        return "it has a third, multimodal tower"
    for part, names in ((vision, _STRANGE_VISION), (text, _STRANGE_TEXT)):
        for name in names:
            if part.get(name):
                return f"it has {name} = {part[name]!r}"
    if isinstance(vision.get("layers"), list):
        return "its images are seen by a ResNet"
    if text.get("pool_type", "argmax") not in {"argmax", "eos"}:
        return f"its texts are pooled by {text['pool_type']!r}"
    if text.get("vocab_size", VOCABULARY) != VOCABULARY:
        return f"its vocabulary has {text['vocab_size']} tokens"
    return None
