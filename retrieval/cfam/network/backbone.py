"""The CLIP under CFAM: OpenCLIP's, with positions for tall images and long texts."""

import copy
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import torch
from torch import Tensor, nn

from retrieval.cfam.network.architecture import Architecture, read_architecture
from retrieval.cfam.network.positions import resized_grid, stretched
from schemas.cfam import CfamBackbone
from schemas.errors import ModelError

_GRID_POSITIONS = "visual.positional_embedding"
_TEXT_POSITIONS = ("positional_embedding", "text.positional_embedding")
_QUICK = "-quickgelu"
_SCALE = ("logit_scale", "logit_bias")
_UNREADABLE = (  # what torch and OpenCLIP raise on bytes that are no weights
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError,
    RuntimeError, TypeError, ValueError, pickle.UnpicklingError,
)  # fmt: skip


class Encoded(NamedTuple):
    """A batch as one tower sees it, in the space that images and texts share.

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
    """OpenCLIP's two towers, giving local vectors beside the global ones.

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
        for name in _SCALE:  # the losses have temperatures of their own
            if getattr(self.clip, name, None) is not None:
                getattr(self.clip, name).requires_grad_(requires_grad=False)
        if source is not None:
            _load(self.clip, source, settings)

    @property
    def dimension(self) -> int:
        """The length d of the vectors."""
        return int(self.architecture["embed_dim"])

    def checkpoint_activations(self) -> None:
        """Keeps no activations inside blocks, and computes them again in the backward pass."""
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
    """Where texts of shape (B, L) have ended: true behind the end, whose id is the highest.

    The id of padding tells nothing: 0 is also CLIP's token for an exclamation mark.
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
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"OpenCLIP could not build {settings.architecture!r}: {reason}") from error


def _weights_file(settings: CfamBackbone) -> Path | None:
    """The file of weights to start from, downloaded if need be; None for random ones."""
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
    """OpenCLIP only warns where weights were trained with another activation than they will get."""
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
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"the weights {source} could not be read: {reason}") from error
    if hasattr(clip, "text"):
        state = model.convert_to_custom_text_state_dict(state)
    _fit(state, clip, settings)
    _fill(clip, state, source)


def _fit(state: dict[str, Tensor], clip: Any, settings: CfamBackbone) -> None:
    """Gives `state` positions of the sizes that `clip` has."""
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
