import io
from pathlib import Path

from PIL import Image

from loupe.release.report.charts import PictureFolder, picture_path


def test_undecodable_images_get_no_thumbnail(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("RGB", (300, 300), "red").save(file, "PNG")
    folder = PictureFolder(tmp_path, 1, previews=False)
    for data in (b"", b"no picture", file.getvalue()[:90]):
        assert folder.add(1, data) is False, data[:20]
        assert not (tmp_path / picture_path("thumbs", 1)).exists()
