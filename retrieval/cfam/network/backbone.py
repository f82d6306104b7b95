"""The CLIP under CFAM: OpenCLIP's, with positions for tall images and long texts."""

import copy
import json
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import torch
from torch import Tensor, nn
from torch.nn import functional

from loupe.schemas.cfam import CfamBackbone
from loupe.schemas.errors import ModelError
from loupe.schemas.validation import fault_of

# The CLIPs that CFAM can be built on, and their architectures in OpenCLIP's form.

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
        raise ModelError(f"the architecture file cannot be read: {fault_of(error)}") from error
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
    """`content`, if CFAM can be built on this architecture.

    Raises:
        ModelError: it is not; the sentence names `where` and why.
    """
    if not _has_parts(content):
        raise ModelError(f"{where} is not an OpenCLIP architecture; expected {', '.join(_PARTS)}")
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


# Position embeddings for images and texts of other sizes than in a model's training.


def resized_grid(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings of a vision transformer for another grid of patches.

    The class token's embedding stays; the others are taken for a square grid, as every CLIP has
    been published with, and interpolated bicubically (antialiased where the grid gets smaller).
    Embeddings of the right grid come back as they are, bit for bit.

    Args:
        positions: of shape (1 + patches, width), the class token's first.
        grid: rows and columns of patches wanted.

    Raises:
        ModelError: the number of patches is neither that of `grid` nor a square.
    """
    rows, columns = grid
    patches = len(positions) - 1
    side = math.isqrt(patches)
    if (patches == rows * columns and side * side != patches) or (side, side) == grid:
        return positions
    if side * side != patches:
        raise ModelError(
            f"position embeddings of {patches} patches are of no square grid; "
            f"got {patches}, wanted a square or {rows} × {columns}"
        )
    square = positions[1:].T.reshape(1, -1, side, side)
    resized = functional.interpolate(square.float(), grid, mode="bicubic", antialias=True)
    spread = resized.to(positions.dtype).reshape(-1, rows * columns).T
    return torch.cat([positions[:1], spread])


def stretched(positions: Tensor, length: int, kept: int) -> Tensor:
    """Position embeddings of a text transformer for another number of tokens.

    For longer texts the first `kept` embeddings stay and the rest is stretched linearly over what
    is left, its first and last unchanged (the knowledge-preserved stretching of Long-CLIP, Zhang et
    al., ECCV 2024, section 3.1: CLIP has learned little beyond its first twenty positions, and what
    it learned there is worth keeping). For shorter texts the first `length` are taken. `kept` 0
    interpolates all of them. The right length comes back as it is, bit for bit.

    Args:
        positions: of shape (tokens, width).
        length: the number of tokens wanted.
        kept: how many of the first embeddings are left alone.
    """
    if length <= len(positions):
        return positions[:length]
    kept = min(kept, len(positions) - 1)
    rest = positions[kept:].T.unsqueeze(0).float()
    longer = functional.interpolate(rest, length - kept, mode="linear", align_corners=True)
    return torch.cat([positions[:kept], longer[0].T.to(positions.dtype)])


# The CLIP under CFAM: OpenCLIP's, with positions for tall images and long texts.

_GRID_POSITIONS = "visual.positional_embedding"
_TEXT_POSITIONS = ("positional_embedding", "text.positional_embedding")
_QUICK = "-quickgelu"
_SCALE = ("logit_scale", "logit_bias")
_UNREADABLE = (  # what torch and OpenCLIP raise for invalid weights
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError,
    RuntimeError, TypeError, ValueError, pickle.UnpicklingError,
)  # fmt: skip


class Encoded(NamedTuple):
    """The output of one tower for a batch, in the space that images and texts share.

    Attributes:
        pooled: (B, d), the global vectors, not of unit length: of the class token and of the end
            of the text.
        tokens: (B, N, d), the local vectors: class token and patches, or start, words and end.
        padding: (B, N), true where a text has no token; None for images, which have no padding.
    """

    pooled: Tensor
    tokens: Tensor
    padding: Tensor | None = None


class ClipBackbone(nn.Module):
    """OpenCLIP's two towers, with local vectors in addition to the global ones.

    Args:
        settings: architecture, weights, image size and text length.
        architecture: that of a checkpoint that will be loaded into this network: what `settings`
            name is then not looked for, and the weights stay random.

    Raises:
        ModelError: no such architecture or weights, or weights of another architecture.
    """

    def __init__(self, settings: CfamBackbone, architecture: Architecture | None = None) -> None:
        super().__init__()
        source = _weights_file(settings) if architecture is None else None
        self.architecture = read_architecture(settings) if architecture is None else architecture
        self.clip = _built(self.architecture, settings)
        for name in _SCALE:  # the losses have their own temperatures
            if getattr(self.clip, name, None) is not None:
                getattr(self.clip, name).requires_grad_(requires_grad=False)
        if source is not None:
            _load(self.clip, source, settings)

    @property
    def dimension(self) -> int:
        """The length d of the vectors."""
        return int(self.architecture["embed_dim"])

    def checkpoint_activations(self) -> None:
        """Discards activations inside blocks and recomputes them in the backward pass."""
        self.clip.set_grad_checkpointing(True)

    def encode_images(self, pixels: Tensor) -> Encoded:
        """Images of shape (B, 3, H, W), normalised by CLIP's mean and deviation, as vectors."""
        found = self.clip.forward_intermediates(
            image=pixels,
            image_indices=1,
            image_output_fmt="NLC",
            image_output_extra_tokens=True,
            normalize=False,
            normalize_intermediates=True,
        )
        last = [found["image_intermediates_prefix"][-1], found["image_intermediates"][-1]]
        return Encoded(found["image_features"], torch.cat(last, dim=1) @ self.clip.visual.proj)

    def encode_texts(self, tokens: Tensor) -> Encoded:
        """Texts of shape (B, L), L as the settings say, as vectors."""
        found = self.clip.forward_intermediates(
            text=tokens, text_indices=1, normalize=False, normalize_intermediates=True
        )
        local = self._projected(found["text_intermediates"][-1])
        return Encoded(found["text_features"], local, padding_of(tokens))

    def _projected(self, tokens: Tensor) -> Tensor:
        projection: Any = getattr(self.clip, "text", self.clip).text_projection
        if projection is None:
            return tokens
        projected: Tensor = (
            projection(tokens) if isinstance(projection, nn.Module) else tokens @ projection
        )
        return projected


def padding_of(tokens: Tensor) -> Tensor:
    """The padding of texts of shape (B, L): true after the end token, which has the highest id.

    Padding cannot be recognised by its id: 0 is also CLIP's token for an exclamation mark.
    """
    places = torch.arange(tokens.shape[1], device=tokens.device)
    return places > tokens.argmax(dim=1, keepdim=True)


def _built(architecture: Architecture, settings: CfamBackbone) -> Any:
    import open_clip
    from open_clip.model import CustomTextCLIP

    content = copy.deepcopy(dict(architecture))
    content["vision_cfg"]["image_size"] = (settings.image_height_px, settings.image_width_px)
    content["text_cfg"]["context_length"] = settings.text_tokens
    kind = CustomTextCLIP if content.pop("custom_text", False) else open_clip.CLIP
    try:
        return kind(**content)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise ModelError(
            f"OpenCLIP could not build {settings.architecture!r}: {fault_of(error)}"
        ) from error


def _weights_file(settings: CfamBackbone) -> Path | None:
    """The file of weights to start from, downloaded if necessary; None for random ones."""
    if settings.checkpoint is not None or settings.weights is None:
        return settings.checkpoint
    from open_clip import pretrained

    known = pretrained.get_pretrained_cfg(settings.architecture, settings.weights)
    if not known or settings.architecture_file is not None:
        tags = pretrained.list_pretrained_tags_by_model(settings.architecture)
        raise ModelError(
            f"OpenCLIP has no weights {settings.weights!r} for {settings.architecture!r}; "
            f"it has {', '.join(map(repr, tags)) or 'none'}"
        )
    _require_activation(settings, bool(known.get("quick_gelu", False)))
    try:
        return Path(pretrained.download_pretrained(known))
    except (OSError, RuntimeError, ValueError, httpx.HTTPError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            f"the weights {settings.weights!r} of {settings.architecture!r} could not be "
            f"downloaded: {reason}"
        ) from error


def _require_activation(settings: CfamBackbone, quick: bool) -> None:
    """Raises if weights were trained with another activation; OpenCLIP only warns."""
    plain = settings.architecture.removesuffix(_QUICK)
    if quick != bool(read_architecture(settings).get("quick_gelu", False)):
        raise ModelError(
            f"the weights {settings.weights!r} were trained with another activation; "
            f"wanted the architecture {plain + _QUICK if quick else plain!r}, "
            f"got {settings.architecture!r}"
        )


def _load(clip: Any, source: Path, settings: CfamBackbone) -> None:
    from open_clip import convert, factory, model
    from safetensors import SafetensorError

    try:
        state = factory.load_state_dict(str(source), device="cpu", weights_only=True)
        state = convert.convert_state_dict(clip, state)
    except (SafetensorError, *_UNREADABLE) as error:
        raise ModelError(f"the weights {source} could not be read: {fault_of(error)}") from error
    if hasattr(clip, "text"):
        state = model.convert_to_custom_text_state_dict(state)
    _fit(state, clip, settings)
    _fill(clip, state, source)


def _fit(state: dict[str, Tensor], clip: Any, settings: CfamBackbone) -> None:
    """Gives `state` position embeddings of the sizes of `clip`."""
    if _GRID_POSITIONS in state:
        state[_GRID_POSITIONS] = resized_grid(state[_GRID_POSITIONS], clip.visual.grid_size)
    for name in _TEXT_POSITIONS:
        if name in state:
            state[name] = stretched(state[name], settings.text_tokens, settings.kept_text_positions)
    for name in _SCALE:
        state.pop(name, None)


def _fill(clip: Any, state: dict[str, Tensor], source: Path) -> None:
    try:
        missing, unknown = clip.load_state_dict(state, strict=False)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise ModelError(f"{source} is of another architecture: {reason}") from error
    missing = [name for name in missing if name not in _SCALE]
    if missing or unknown:
        raise ModelError(
            f"{source} is of another architecture: it lacks {missing[:1] or 'nothing'} and has "
            f"{unknown[:1] or 'nothing'} too much"
        )
