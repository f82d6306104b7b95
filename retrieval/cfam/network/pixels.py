"""Images as CLIP's pixels."""

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode, functional

from schemas.cfam import CfamBackbone

MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
"""Of the images that CLIP was trained on (Radford et al. 2021); those of all CLIPs that CFAM takes.

After normalising, 0 is the mean colour: padding and erased rectangles have it.
"""


def clip_pixels(image: Image.Image, size: CfamBackbone) -> Tensor:
    """The image at the network's height and width, bicubic, normalised: (3, H, W) in float32.

    The proportions are not kept: people's crops are near enough 1 to 3, and every pixel counts.
    """
    height_width = [size.image_height_px, size.image_width_px]
    resized = functional.resize(
        image.convert("RGB"), height_width, interpolation=InterpolationMode.BICUBIC
    )
    scaled = functional.to_dtype(functional.pil_to_tensor(resized), torch.float32, scale=True)
    pixels: Tensor = functional.normalize(scaled, list(MEAN), list(DEVIATION))
    return pixels
