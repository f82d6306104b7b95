"""Pictures of 16 bits, which Pillow would make white."""

import base64
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from flows.engine.pages import shrunk_uri
from models.embedding import plain_picture
from release.report.charts import smaller
from retrieval.similarity.spectrum import look_hash
from schemas.decoders import in_eight_bits

SHADES = np.tile(np.arange(256, dtype=np.uint8), (200, 1))


def of_jpeg(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(BytesIO(data))


READERS: dict[str, Callable[[Image.Image, bytes], Image.Image]] = {
    "in_eight_bits": lambda picture, _: in_eight_bits(picture),
    "plain_picture": lambda picture, _: plain_picture(picture),
    "shrunk_uri": lambda _, data: of_jpeg(
        base64.b64decode(shrunk_uri(data, 100).removeprefix("data:image/jpeg;base64,"))
    ),
    "report": lambda _, data: of_jpeg(smaller(data, 100)),
}


def test_pictures_of_16_bits_keep_their_shades(subtests: pytest.Subtests) -> None:
    deep = Image.fromarray(SHADES.astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    file = BytesIO()
    deep.save(file, "PNG")
    for name, read in READERS.items():
        with subtests.test(reader=name):
            found = np.asarray(read(deep, file.getvalue()).convert("L"), np.float32)
            assert abs(found.mean() - SHADES.mean()) < 3
            assert abs(found.std() - SHADES.std()) < 3
    shallow = BytesIO()
    Image.fromarray(SHADES).save(shallow, "PNG")
    assert look_hash(file.getvalue()) == look_hash(shallow.getvalue()) is not None
