"""Formats whose records are images with their captions; they differ in the names of the fields."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from loupe.schemas.json_stream import (
    Element,
    JsonCursor,
    stream_list,
    stream_members,
    stream_sections,
)
from loupe.sources.annotations import (
    MISSING,
    Field,
    FieldError,
    Importer,
    bad_row,
    checked_caption,
    checked_identity,
    checked_object,
    checked_path,
    checked_split,
    present,
    rows_of,
    wrong_type,
)
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow


class CaptionedImporter(Importer):
    """Reads records of one image each: CUHK-PEDES and formats like it, Karpathy's splits.

    Attributes:
        layout: whether the file is a list of records, an object with a list of `images`, or JSON
            lines.
        identity: the fields that may name the identity; the first that a record has counts.
        file_path: the field with the image's path.
        folder: the field with the folder of that path, which a record may have.
        captions: the fields that may hold the captions, a list or one text; the first that a record
            has counts.
        caption_key: the key of the text if captions are objects; a plain string is used directly.
        renamed_splits: splits with another name.
        split_is_optional: whether a record may lack a split; it is then in that of the options,
            else in test.
        with_splits: the collection's file that has splits, if it has another file without them.
    """

    layout: Literal["list", "images", "lines"] = "list"
    identity: tuple[str, ...] = ("id",)
    file_path: str = "file_path"
    folder: str | None = None
    captions: tuple[str, ...] = ("captions",)
    caption_key: str | None = None
    renamed_splits: Mapping[str, str] = {}
    split_is_optional: bool = False
    with_splits: str | None = None

    @property
    def hint_on_splits(self) -> str:
        """What to do about a file in which no record has a split."""
        other = f"use {self.with_splits}, which has them, or " if self.with_splits else ""
        return f"; {other}state one for the whole file (split of the source, or --split)"

    def for_one_split(self) -> Self:
        """Return the importer of a file in which no record has a split."""
        return self.model_copy(update={"split_is_optional": True})

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each record, in the file's order.

        Raises:
            FormatError: the file is not of this format.
        """

        def read(element: Element) -> Iterator[Row]:
            record = checked_object(element.value)
            name = _first_of(self.identity, record) or self.identity[-1]
            captions = _first_of(self.captions, record) or self.captions[0]
            default = options.split_or_test if self.split_is_optional else MISSING
            split = record.get("split", default)
            if isinstance(split, str):
                split = self.renamed_splits.get(split, split)
            return _checked_rows(
                element.index,
                path.name,
                record,
                options,
                identity=Field(name, record.get(name, MISSING)),
                split=Field("split", split),
                file_path=self._path(record),
                captions=Field(captions, record.get(captions, MISSING)),
                caption_key=self.caption_key,
            )

        return rows_of(self._elements(path, options), path.name, read)

    def _elements(self, path: Path, options: ReadOptions) -> Iterator[Element | BadRow]:
        fields = {self.file_path, *self.captions}
        if self.layout == "lines":
            captions = " or ".join(self.captions)
            wanted = f"the fields {self.file_path} and {captions}"
            return self.lines(path, options, lambda keys: not fields.isdisjoint(keys), wanted)
        if self.layout == "images":
            return self.elements(path, stream_sections, {"images": frozenset(fields)}, options)
        return self.elements(path, stream_list, {"": frozenset({*fields, *self.identity})}, options)

    def _path(self, record: dict[str, Any]) -> Field:
        """Return the image's path, with its folder if the record has one."""
        folder = record.get(self.folder, "") if self.folder else ""
        name = record.get(self.file_path, MISSING)
        if not isinstance(folder, str):
            return Field(str(self.folder), folder)
        if folder and isinstance(name, str) and name:
            name = f"{folder}/{name}"
        return Field(self.file_path, name)


def _first_of(names: tuple[str, ...], record: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in record), None)


class FineGrainedImporter(Importer):
    """Reads MSCOCO-FG and Flickr30K-FG: finer captions of two test sets, `{"name": [texts]}`.

    Each image is its own identity, and its file is named `NAME.jpg`. The authors add images without
    captions to both galleries, in a file of their own. These are not read: ReCoS' table 2 has as
    many images as the original test sets.
    """

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each image, in the file's order.

        Raises:
            FormatError: the file is not of this format.
        """

        def read(element: Element) -> Iterator[Row]:
            name, captions = element.value["name"], element.value["captions"]
            if element.index == 0 and not (
                isinstance(captions, list) and all(isinstance(one, str) for one in captions)
            ):
                raise self.stranger(path, f": {name[:80]!r} must have a list of texts")
            return _checked_rows(
                element.index,
                path.name,
                {name: captions},
                options,
                identity=Field("name", name),
                split=Field("split", options.split_or_test),
                file_path=Field("name", f"{name}.jpg"),
                captions=Field(name, captions),
            )

        known = {"": frozenset({"name"})}
        return rows_of(self.elements(path, _members, known, options), path.name, read)


def _members(cursor: JsonCursor) -> Iterator[Element]:
    for index, name in enumerate(stream_members(cursor)):
        yield Element("", index, {"name": name, "captions": cursor.value()})


def _checked_rows(
    index: int,
    file: str,
    record: Any,
    options: ReadOptions,
    *,
    identity: Field,
    split: Field,
    file_path: Field,
    captions: Field,
    caption_key: str | None = None,
) -> Iterator[Row]:
    """Yield the row of a record; before it, one bad row per bad caption.

    Raises:
        FieldError: the record cannot be used.
    """
    is_path = identity == file_path
    name = "" if is_path else checked_identity(identity)
    checked = checked_split(split)
    image = checked_path(file_path)
    values = present(captions, "a text or a list of texts")
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, list):
        raise wrong_type(captions, "a text or a list of texts")
    texts: dict[int, str] = {}
    for position, value in enumerate(values):
        field = Field(f"{captions.path}[{position}]", value)
        try:
            found = field.inner(caption_key) if caption_key and isinstance(value, dict) else field
            texts[position] = checked_caption(found, options)
        except FieldError as fault:
            yield bad_row(fault, file, index, record, "caption")
    if not texts:
        detail = f"{captions.path} has no caption that can be used, wanted at least one"
        raise FieldError(captions.path, "no_usable_caption", detail)
    yield SourceRow(
        index=index,
        identity=image if is_path else name,
        split=checked,
        file_path=image,
        captions=tuple(texts.values()),
        positions=tuple(texts),
    )
