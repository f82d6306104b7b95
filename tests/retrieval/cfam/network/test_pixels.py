from pathlib import Path

import torch
from PIL import Image

from loupe.retrieval.cfam.network.pairs import DEVIATION, MEAN, clip_pixels
from tests.retrieval.cfam.small_clip import HEIGHT_PX, WIDTH_PX, small_backbone


def test_the_constants_are_those_of_openai_clip() -> None:
    from open_clip import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD

    assert MEAN == OPENAI_DATASET_MEAN
    assert DEVIATION == OPENAI_DATASET_STD


def test_images_are_resized_to_the_network_and_keep_their_colour(tmp_path: Path) -> None:
    pixels = clip_pixels(Image.new("RGB", (10, 500), (255, 0, 51)), small_backbone(tmp_path))
    assert pixels.shape == (3, HEIGHT_PX, WIDTH_PX)
    assert pixels.dtype == torch.float32
    colour = pixels * torch.tensor(DEVIATION)[:, None, None] + torch.tensor(MEAN)[:, None, None]
    expected = torch.tensor([1.0, 0.0, 0.2])[:, None, None].expand_as(colour)
    assert torch.allclose(colour, expected, atol=1e-5)


def test_grey_images_are_converted_to_rgb(tmp_path: Path) -> None:
    assert clip_pixels(Image.new("L", (30, 60), 128), small_backbone(tmp_path)).shape[0] == 3
