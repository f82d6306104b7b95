import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sources.web.contents import moves


def gif(frames: int, colours: int = 4, **options: object) -> bytes:
    pictures = [Image.effect_noise((9, 7), 90).quantize(colours) for _ in range(frames)]
    pictures[0].save(
        buffer := io.BytesIO(), "GIF", save_all=True, append_images=pictures[1:], **options
    )
    return buffer.getvalue()


def test_pictures_are_counted(subtests: pytest.Subtests) -> None:
    for colours, frames in itertools.product((2, 16, 256), (1, 2, 5)):
        with subtests.test(colours=colours, frames=frames):
            data = gif(frames, colours, loop=0, duration=20, comment=b"," * 600)
            with Image.open(io.BytesIO(data)) as picture:
                assert moves(data) == (frames > 1) == bool(picture.is_animated)  # type: ignore[attr-defined]


def test_a_gif_that_breaks_off_in_its_first_picture_does_not_move() -> None:
    assert not any(moves(gif(1)[:length]) for length in range(len(gif(1))))


@given(st.binary(), st.integers(0, 400))
def test_any_bytes_are_walked_through(data: bytes, kept: int) -> None:
    assert moves(b"GIF89a" + data) in (True, False)
    assert moves(gif(3)[:kept] + data) in (True, False)
