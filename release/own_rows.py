"""A row that is being released, as it is compared with other datasets."""

from release.image_looks import look_at
from release.own_images import SeenImage
from release.rows import ReleaseRow


def seen_row(row: ReleaseRow, image: bytes) -> SeenImage:
    """The row with the perceptual hash of its image."""
    return SeenImage(
        name=row.file_path,
        sha256=row.sha256,
        look=look_at(image).perceptual_hash,
        split=row.split,
        identity=(row.source, row.identity),
        video_sha256=row.crop.video_sha256 if row.crop else None,
        captions=tuple(one.text for one in (*row.captions, *row.coarse_captions)),
    )
