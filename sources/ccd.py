"""CCD's published files: a JSON object a line, an image with five captions.

An anchor is `{"image", "captions"}`; a contrastive image tells its `contrastive_aspect` too, and
its anchor in `ori_image` or by its name: `391895_contrast_0.jpg` differs from `391895.jpg`. Fields
that releases add to these (`release.json_rows`) are understood. Anchors lie under their own
name, or under that of the original in COCO or Flickr30k.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from schemas.errors import FormatError
from schemas.json_stream import open_annotations
from schemas.records import Attribution, Granularity, Split
from schemas.taxonomy import DifferenceType
from sources.fields import (
    MISSING,
    Field,
    FieldError,
    bad_row,
    checked_caption,
    checked_object,
    checked_path,
)
from sources.json_lines import Line, lines_of, parsed_line
from sources.licensed_images import optional_text, source_page
from sources.records import ReadOptions, Row, SourceContrast, SourceRow, shown
from sources.terms import ImporterTerms

CAPTIONS: Final = 5
_ASPECT, _ANCHOR = "contrastive_aspect", "ori_image"
_FOLDERS: Final = ("images", "val2014", "edit_images", "flickr30k-images", "flickr30k_images")
_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_TRANSLATED: Final = re.compile(r"captions_([a-z]{2})")
_WAYS: Final[dict[object, Literal["search", "edit"]]] = {"search": "search", "edit": "edit"}

_Anchors = Mapping[str, SourceRow]
"""The rows of the anchors by the name of their image."""


class _Record(NamedTuple):
    """A line that is an object, by its place among the lines."""

    at: int
    fields: dict[str, Any]

    @property
    def is_contrastive(self) -> bool:
        """Whether it describes an image that differs from an anchor."""
        return _ASPECT in self.fields or _ANCHOR in self.fields


class CcdImporter(ImporterTerms):
    """Reads anchors and what differs from them; each image is its own identity.

    A record must have all five captions: with four, nothing can be compared as the paper does. A
    contrastive image whose anchor is not there, or cannot be used, cannot be used either.
    """

    default_split: Split = "test"

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row or one bad row for each line that is not blank, in the file's order.

        Raises:
            FormatError: the file cannot be opened, or its first line is not such an object.
        """
        options = options or ReadOptions()
        self._refuse_stranger(path, options)
        anchors = self._anchors(path, options)
        seen: set[str] = set()
        for line in self._lines(path, options):
            try:
                record = _Record(line.index, checked_object(parsed_line(line, options)))
                row = self._row(record, anchors, options)
                _refuse_second(row.identity, seen)
            except FieldError as fault:
                yield bad_row(fault, path.name, line.index, line.text)
            else:
                seen.add(row.identity)
                yield row

    def _lines(self, path: Path, options: ReadOptions) -> Iterator[Line]:
        with open_annotations(path) as file:
            yield from lines_of(file, options.max_record_characters)

    def _refuse_stranger(self, path: Path, options: ReadOptions) -> None:
        for line in self._lines(path, options):
            try:
                fields = checked_object(parsed_line(line, options))
            except FieldError:
                fields = {}
            if {"image", "captions"} <= fields.keys():
                return
            raise FormatError(
                f"{path} is not a {self.format} file: line {line.number:,}, its first, is not a "
                f"JSON object with the fields image and captions"
            )
        raise FormatError(f"{path} is not a {self.format} file: it has no records")

    def _anchors(self, path: Path, options: ReadOptions) -> dict[str, SourceRow]:
        """The anchors that can be used, without their captions."""
        anchors: dict[str, SourceRow] = {}
        for line in self._lines(path, options):
            try:
                record = _Record(line.index, checked_object(parsed_line(line, options)))
                if not record.is_contrastive:
                    row = self._row(record, {}, options)
                    anchors.setdefault(row.identity, _bare(row))
            except FieldError:
                continue  # named when the rows are read
        return anchors

    def _row(self, record: _Record, anchors: _Anchors, options: ReadOptions) -> SourceRow:
        fields = record.fields
        name = checked_path(Field("image", fields.get("image", MISSING)))
        contrast = None
        if record.is_contrastive:
            contrast = _contrast(name, fields, anchors, options)
        elif _anchor_by_name(name) in anchors.keys() - {name}:
            detail = f"{_ASPECT} is missing, wanted the type of what differs from the anchor"
            raise FieldError(_ASPECT, "missing_field", detail)
        return SourceRow(
            index=record.at,
            identity=name,
            split=options.split or self.default_split,
            file_path=name,
            other_paths=tuple(_other_paths(name)),
            captions=_five(fields, options),
            positions=tuple(range(CAPTIONS)),
            attribution=_attribution(fields, options),
            coarse_captions=_texts(fields, "coarse_captions", options),
            translations=tuple(_translations(fields, options)),
            contrast=contrast,
            is_grouped=True,
        )


def _bare(row: SourceRow) -> SourceRow:
    return row.model_copy(
        update={"captions": (), "positions": (), "coarse_captions": (), "translations": ()}
    )


def _contrast(
    name: str, fields: Mapping[str, Any], anchors: _Anchors, options: ReadOptions
) -> SourceContrast:
    if _ANCHOR in fields:
        anchor = checked_path(Field(_ANCHOR, fields[_ANCHOR]))
    else:
        anchor = _anchor_by_name(name)
    if anchor not in anchors:
        detail = (
            f"the anchor {shown(anchor)} of {shown(name)} is not in the file, or cannot be used"
        )
        raise FieldError(_ANCHOR, "anchor_missing", detail)
    return SourceContrast(
        anchor=anchors[anchor],
        difference=_difference(fields.get(_ASPECT)),
        detail=optional_text(fields, "contrastive_detail", options) or "",
        plan=optional_text(fields, "contrastive_strategy", options) or "",
        way=_WAYS.get(fields.get("way") if isinstance(fields.get("way"), str) else None),
    )


def _anchor_by_name(name: str) -> str:
    """The anchor of `391895_contrast_0.jpg` is `391895.jpg`."""
    path = PurePosixPath(name)
    if not path.name:  # "/" has nothing to replace
        return name
    return str(path.with_name(f"{path.stem.split('_')[0] or path.stem}{path.suffix}"))


def _difference(value: object) -> DifferenceType:
    try:
        return DifferenceType(str(value))
    except ValueError:
        known = ", ".join(DifferenceType)
        detail = f"{_ASPECT} is no type of difference: got {shown(value)}, wanted one of {known}"
        raise FieldError(_ASPECT, "unknown_difference", detail) from None


def _five(fields: Mapping[str, Any], options: ReadOptions) -> tuple[str, ...]:
    captions = _texts(fields, "captions", options)
    if len(captions) != CAPTIONS:
        detail = f"captions has {len(captions)} captions, wanted {CAPTIONS}"
        raise FieldError("captions", "wrong_caption_count", detail)
    return captions


def _texts(fields: Mapping[str, Any], key: str, options: ReadOptions) -> tuple[str, ...]:
    """The captions of a list; none where there is no such field."""
    values = fields.get(key, [])
    if not isinstance(values, list):
        detail = f"{key} has the wrong type: got {shown(values)}, wanted a list of captions"
        raise FieldError(key, "wrong_type", detail)
    return tuple(
        checked_caption(Field(f"{key}[{at}]", value), options) for at, value in enumerate(values)
    )


def _translations(
    fields: Mapping[str, Any], options: ReadOptions
) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    """The captions in other languages, in their places; None where one is null."""
    for key in sorted(fields):
        if match := _TRANSLATED.fullmatch(key):
            yield match[1], _texts_or_null(fields, key, options)


def _texts_or_null(
    fields: Mapping[str, Any], key: str, options: ReadOptions
) -> tuple[str | None, ...]:
    values = fields[key]
    if not isinstance(values, list):
        return _texts(fields, key, options)
    return tuple(
        None if value is None else checked_caption(Field(f"{key}[{at}]", value), options)
        for at, value in enumerate(values)
    )


def _attribution(fields: Mapping[str, Any], options: ReadOptions) -> Attribution | None:
    licence = optional_text(fields, "licence", options)
    creator = optional_text(fields, "creator", options)
    page = source_page(fields, options)
    if licence is None:
        return None
    return Attribution(licence=licence, creator=creator, source_url=page)


def _other_paths(name: str) -> Iterator[str]:
    """Where else the image may lie: in a folder, or under the name that COCO gave it."""
    path = PurePosixPath(name)
    names = [name]
    if _NUMBER.fullmatch(path.stem):
        number = f"{int(path.stem):012d}{path.suffix}"
        names += [number, f"COCO_val2014_{number}"]
    yield from dict.fromkeys(names[1:])
    for folder in _FOLDERS:
        yield from (f"{folder}/{one}" for one in dict.fromkeys(names))


def _refuse_second(name: str, seen: set[str]) -> None:
    if name in seen:
        detail = f"image repeats {shown(name)} of a record before it, wanted its own"
        raise FieldError("image", "duplicate_image", detail)


CCD = CcdImporter(
    format="ccd",
    licence="Images under the terms of MSCOCO or Flickr30k, or of their creators (CC licences)",
    citation=(
        "Benchmarking the Fine-Grained Discriminability in Image-Text Retrieval via Controlled "
        "Contrastive Differences. Findings of ACL 2026"
    ),
    homepage="https://github.com/miaomiao1215/CCD",
    granularity=Granularity.FINE,
)
