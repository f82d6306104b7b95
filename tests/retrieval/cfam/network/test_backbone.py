from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from loupe.retrieval.cfam.network.backbone import ClipBackbone, padding_of
from loupe.retrieval.cfam.network.pairs import END, START, ClipTokenizer
from loupe.schemas.cfam import CfamBackbone
from loupe.schemas.errors import ModelError
from tests.retrieval.cfam.small_clip import GRID, HEIGHT_PX, TEXT_TOKENS, WIDTH_PX, small_backbone

TEXTS = ["A man in a red coat!", "Two bags.", ""]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> ClipBackbone:
    torch.manual_seed(0)
    return ClipBackbone(small_backbone(tmp_path_factory.mktemp("architecture"))).eval()


@pytest.fixture(scope="module")
def pixels() -> torch.Tensor:
    return torch.randn(3, 3, HEIGHT_PX, WIDTH_PX, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return ClipTokenizer(TEXT_TOKENS)(TEXTS)


@torch.no_grad()
def test_images_give_the_class_token_and_all_patches(
    backbone: ClipBackbone, pixels: torch.Tensor
) -> None:
    images = backbone.encode_images(pixels)
    assert images.pooled.shape == (3, 32)
    assert images.tokens.shape == (3, 1 + GRID[0] * GRID[1], 32)
    assert images.padding is None
    assert torch.allclose(images.pooled, backbone.clip.encode_image(pixels), atol=1e-6)
    assert torch.allclose(images.tokens[:, 0], images.pooled, atol=1e-6)


@torch.no_grad()
def test_texts_give_all_tokens_and_their_padding(
    backbone: ClipBackbone, tokens: torch.Tensor
) -> None:
    texts = backbone.encode_texts(tokens)
    ends = tokens.argmax(dim=1)
    assert texts.tokens.shape == (3, TEXT_TOKENS, 32)
    assert torch.allclose(texts.pooled, backbone.clip.encode_text(tokens), atol=1e-6)
    assert torch.allclose(texts.tokens[torch.arange(3), ends], texts.pooled, atol=1e-6)
    assert texts.padding is not None
    assert (~texts.padding).sum(dim=1).tolist() == (ends + 1).tolist()
    assert ends[2] == 1


def test_a_zero_token_inside_a_text_is_no_padding() -> None:
    row = torch.tensor([[START, 0, 320, 0, END, 0, 0]])
    assert padding_of(row).tolist() == [[False] * 5 + [True] * 2]


def saved(backbone: ClipBackbone, path: Path, **changes: torch.Tensor) -> Path:
    state = {name: value.contiguous() for name, value in backbone.clip.state_dict().items()}
    save_file(state | changes, path)
    return path


def test_a_checkpoint_of_the_same_size_is_loaded_unchanged(
    backbone: ClipBackbone, tmp_path: Path
) -> None:
    settings = small_backbone(tmp_path, checkpoint=saved(backbone, tmp_path / "clip.safetensors"))
    loaded = ClipBackbone(settings).clip.state_dict()
    for name, value in backbone.clip.state_dict().items():
        assert torch.equal(loaded[name], value), name


def test_only_the_positions_of_a_square_checkpoint_are_resized(tmp_path: Path) -> None:
    square = ClipBackbone(
        small_backbone(tmp_path, image_height_px=64, image_width_px=64, text_tokens=77)
    )
    path = tmp_path / "clip.pt"
    torch.save(square.clip.state_dict(), path)
    tall = ClipBackbone(small_backbone(tmp_path, checkpoint=path)).clip.state_dict()
    for name, value in square.clip.state_dict().items():
        if "positional_embedding" not in name:
            assert torch.equal(tall[name], value), name
    assert torch.equal(
        tall["positional_embedding"][:20], square.clip.positional_embedding.data[:20]
    )
    assert tall["positional_embedding"].shape == (TEXT_TOKENS, 64)
    assert tall["visual.positional_embedding"].shape == (13, 64)


def test_weights_of_another_architecture_are_refused(
    backbone: ClipBackbone, tmp_path: Path
) -> None:
    wrong = saved(backbone, tmp_path / "wrong.safetensors", text_projection=torch.zeros(64, 8))
    more = saved(backbone, tmp_path / "more.safetensors", surplus=torch.zeros(1))
    for path in (wrong, more):
        with pytest.raises(ModelError, match=r"(wrong|more).* is of another architecture"):
            ClipBackbone(small_backbone(tmp_path, checkpoint=path))


class Trap:
    """An object that would touch a file when a hostile checkpoint is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_code_in_a_checkpoint_is_not_executed(tmp_path: Path) -> None:
    path, trace = tmp_path / "clip.pt", tmp_path / "run"
    torch.save({"visual.proj": Trap(trace)}, path)
    with pytest.raises(ModelError, match=r"clip\.pt could not be read"):
        ClipBackbone(small_backbone(tmp_path, checkpoint=path))
    assert not trace.exists()


def test_damaged_and_missing_checkpoints_are_refused(tmp_path: Path) -> None:
    for name in ("clip.safetensors", "clip.pt"):
        path = tmp_path / name
        settings = small_backbone(tmp_path, checkpoint=path)
        with pytest.raises(ModelError, match="could not be read"):
            ClipBackbone(settings)
        path.write_bytes(b"no weights")
        with pytest.raises(ModelError, match="could not be read"):
            ClipBackbone(settings)


def test_unknown_openclip_weights_are_refused() -> None:
    with pytest.raises(ModelError, match="it has 'openai'"):
        ClipBackbone(CfamBackbone(weights="none-such"))
    with pytest.raises(ModelError, match="wanted the architecture 'ViT-B-16-quickgelu'"):
        ClipBackbone(CfamBackbone(architecture="ViT-B-16", weights="openai"))
