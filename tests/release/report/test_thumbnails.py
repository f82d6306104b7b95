import io
from itertools import product
from pathlib import Path

from PIL import Image

from loupe.release.report.charts import PictureFolder, picture_path
from loupe.schemas.decoders import small_jpeg


def encoded(size: tuple[int, int], mode: str = "RGB", kind: str = "PNG", **how: object) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, "red" if mode == "RGB" else 0).save(buffer, kind, **how)
    return buffer.getvalue()


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(io.BytesIO(data))


def test_images_are_scaled_down_and_never_up() -> None:
    sizes = (
        ((1600, 800), (200, 100)),
        ((90, 400), (45, 200)),
        ((3000, 1), (200, 1)),
        ((20, 30), (20, 30)),
    )
    for (size, small), kind in product(sizes, ("PNG", "JPEG")):
        picture = opened(small_jpeg(encoded(size, kind=kind), 200))
        assert (picture.format, picture.size) == ("JPEG", small), (size, kind)
        red, green, blue = picture.convert("RGB").getpixel((0, 0))  # type: ignore[misc]
        assert red > 240
        assert green < 15
        assert blue < 15


def test_a_small_jpeg_is_kept_byte_for_byte() -> None:
    data = encoded((100, 180), kind="JPEG")
    assert small_jpeg(data, 200) == data


def test_a_rotated_photograph_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert opened(small_jpeg(encoded((180, 100), kind="JPEG", exif=exif), 200)).size == (100, 180)


def test_transparent_pixels_become_white() -> None:
    for mode in ("RGBA", "LA", "P"):
        image = Image.new("RGBA", (50, 50), (0, 0, 0, 0)).convert(mode)
        buffer = io.BytesIO()
        image.save(
            buffer, "PNG", **({"transparency": image.getpixel((0, 0))} if mode == "P" else {})
        )
        shown = opened(small_jpeg(buffer.getvalue(), 200)).convert("RGB")
        assert shown.getpixel((25, 25)) == (255, 255, 255), mode


def test_undecodable_images_get_no_thumbnail(tmp_path: Path) -> None:
    folder = PictureFolder(tmp_path, 1, previews=False)
    for data in (b"", b"no picture", encoded((300, 300))[:90]):
        assert small_jpeg(data, 200) is None, data[:20]
        assert folder.add(1, data) is False, data[:20]
        assert not (tmp_path / picture_path("thumbs", 1)).exists()
