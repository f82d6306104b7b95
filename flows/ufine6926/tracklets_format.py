"""The format `tracklets`: what `loupe track` wrote, as a source of any pipeline."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ValidationError

from loupe.schemas.errors import FormatError
from loupe.schemas.validation import fault_of
from loupe.sources.annotations import Importer
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, SourceRow


class _Frame(BaseModel):
    crop: str


class _Tracklet(BaseModel):
    track: int
    frames: tuple[_Frame, ...]


class _Tracked(BaseModel):
    """The fields of `tracklets.json` that a source needs."""

    video: str
    tracklets: tuple[_Tracklet, ...]


class Tracklets(Importer):
    """Reads `tracklets.json` of `loupe track`: each tracklet is a person, each crop an image."""

    def rows(
        self, path: Path, options: ReadOptions = DEFAULT_OPTIONS
    ) -> Iterator[SourceRow | BadRow]:
        """Yield a row for each crop, in the order of the tracklets.

        Raises:
            FormatError: it is another file.
        """
        try:
            tracked = _Tracked.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise FormatError(
                f"{path.name} is not tracklets.json of `loupe track`: {fault_of(error)}"
            ) from error
        video = PurePosixPath(tracked.video).stem
        index = 0
        for place, tracklet in enumerate(tracked.tracklets):
            for frame in tracklet.frames:
                yield SourceRow(
                    index=index,
                    identity=f"{video}-{tracklet.track:04}-{place}",
                    split=options.split_or_test,
                    file_path=frame.crop,
                )
                index += 1
