"""MSCOCO-FG and Flickr30K-FG: finer captions of the two test sets, as `{"image name": [texts]}`."""

from collections.abc import Iterator
from pathlib import Path

from schemas.errors import FormatError
from schemas.json_stream import JsonBreak, JsonCursor, open_annotations, stream_members
from schemas.records import Split
from sources.annotation_file import end_of_file
from sources.fields import Field, RawRow, checked_rows
from sources.records import ReadOptions, Row
from sources.terms import ImporterTerms


class FineGrainedImporter(ImporterTerms):
    """Reads the captions; each image is its own identity, and its file is named `NAME.jpg`.

    The images without captions that the authors add to both galleries are not read: they name them
    in a file of their own, and ReCoS' table 2 has as many images as the original test sets.
    """

    default_split: Split = "test"

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row or one bad row for each image, in the file's order.

        Raises:
            FormatError: the file is not of this format.
        """
        options = options or ReadOptions()
        index = 0
        with open_annotations(path) as file:
            cursor = JsonCursor(file, options.max_record_characters)
            try:
                for name in stream_members(cursor):
                    captions = cursor.value()
                    if index == 0:
                        self._refuse_stranger(path, name, captions)
                    row = RawRow(
                        index=index,
                        identity=Field("name", name),
                        split=Field("split", options.split or self.default_split),
                        file_path=Field("name", f"{name}.jpg"),
                        captions=Field(name, captions),
                        record={name: captions},
                    )
                    yield from checked_rows(row, path.name, options)
                    index += 1
            except JsonBreak as fault:
                if index == 0:
                    where = f"at byte {fault.offset:,}: {fault.what}"
                    raise FormatError(f"{path} is not a {self.format} file, {where}") from fault
                yield end_of_file(path, fault, index)
        if index == 0:
            raise FormatError(f"{path} is not a {self.format} file: it has no images")

    def _refuse_stranger(self, path: Path, name: str, captions: object) -> None:
        if not isinstance(captions, list) or not all(isinstance(one, str) for one in captions):
            raise FormatError(
                f"{path} is not a {self.format} file: {name[:80]!r} must have a list of texts"
            )


_CHEN = (
    "Chen, Yao, Jin: Rethinking Benchmarks for Cross-modal Image-text Retrieval. SIGIR 2023; "
    "images: "
)
_HOMEPAGE = "https://github.com/cwj1412/MSCOCO-Flikcr30K_FG"
MSCOCO_FG = FineGrainedImporter(
    format="mscoco-fg",
    licence="Captions without stated terms; images under the Flickr terms of their authors",
    citation=f"{_CHEN}Lin et al.: Microsoft COCO: Common Objects in Context. ECCV 2014",
    homepage=_HOMEPAGE,
)
FLICKR30K_FG = FineGrainedImporter(
    format="flickr30k-fg",
    licence="Captions without stated terms; images under Flickr's terms",
    citation=(
        f"{_CHEN}Young, Lai, Hodosh, Hockenmaier: From Image Descriptions to Visual Denotations. "
        "TACL 2014"
    ),
    homepage=_HOMEPAGE,
)
