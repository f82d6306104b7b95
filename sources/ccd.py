"""CCD's published files: a JSON object a line, an image with five captions.

An anchor is `{"image", "captions"}`; a contrastive image also states its `contrastive_aspect`, and
its anchor in `ori_image` or by its name: `391895_contrast_0.jpg` differs from `391895.jpg`. The
fields that releases add (`loupe.release.format.row_files`) are supported. The files of anchors have
their own name, or that of the original in COCO or Flickr30k.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from loupe.schemas.json_stream import Element
from loupe.schemas.records import Attribution
from loupe.schemas.taxonomy import DifferenceType
from loupe.sources.annotations import (
    MISSING,
    Field,
    FieldError,
    Importer,
    checked_caption,
    checked_object,
    checked_path,
    optional_text,
    refuse_second,
    rows_of,
    source_page,
    wrong_type,
)
from loupe.sources.records import (
    DEFAULT_OPTIONS,
    BadRow,
    ReadOptions,
    Row,
    SourceContrast,
    SourceRow,
    shown,
)

CAPTIONS: Final = 5
_ASPECT, _ANCHOR = "contrastive_aspect", "ori_image"
_FOLDERS: Final = ("images", "val2014", "edit_images", "flickr30k-images", "flickr30k_images")
_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_TRANSLATED: Final = re.compile(r"captions_([a-z]{2})")

_Anchors = Mapping[str, SourceRow]
"""The rows of the anchors by the name of their image."""


class CcdImporter(Importer):
    """Reads anchors and the images that differ from them; each image is its own identity.

    A record must have all five captions, because comparisons as in the paper need them. A
    contrastive image whose anchor is missing or unusable is unusable as well.
    """

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each non-blank line, in the file's order.

        Raises:
            FormatError: the file cannot be opened, or its first line is not an object of this
                format.
        """
        anchors = self._anchors(path, options)
        seen: set[str] = set()

        def read(element: Element) -> Iterator[Row]:
            row = _row(element.index, checked_object(element.value), anchors, options)
            refuse_second("image", row.identity, seen)
            yield row

        return rows_of(self._elements(path, options), path.name, read)

    def _elements(self, path: Path, options: ReadOptions) -> Iterator[Element | BadRow]:
        wanted = "the fields image and captions"
        return self.lines(path, options, lambda keys: {"image", "captions"} <= keys, wanted)

    def _anchors(self, path: Path, options: ReadOptions) -> dict[str, SourceRow]:
        """Return the usable anchors, without their captions."""
        anchors: dict[str, SourceRow] = {}
        without = dict.fromkeys(("captions", "positions", "coarse_captions", "translations"), ())
        for element in self._elements(path, options):
            if isinstance(element, BadRow):
                continue
            try:
                fields = checked_object(element.value)
                if not _is_contrastive(fields):
                    row = _row(element.index, fields, {}, options)
                    anchors.setdefault(row.identity, row.model_copy(update=without))
            except FieldError:
                continue  # a bad row in the second pass
        return anchors


def _is_contrastive(fields: Mapping[str, Any]) -> bool:
    """Whether a record describes an image that differs from an anchor."""
    return _ASPECT in fields or _ANCHOR in fields


def _row(
    index: int, fields: Mapping[str, Any], anchors: _Anchors, options: ReadOptions
) -> SourceRow:
    name = checked_path(Field("image", fields.get("image", MISSING)))
    contrast = None
    if _is_contrastive(fields):
        contrast = _contrast(name, fields, anchors, options)
    elif _anchor_by_name(name) in anchors.keys() - {name}:
        detail = f"{_ASPECT} is missing, wanted the type of what differs from the anchor"
        raise FieldError(_ASPECT, "missing_field", detail)
    captions = _texts(fields, "captions", options)
    if len(captions) != CAPTIONS:
        detail = f"captions has {len(captions)} captions, wanted {CAPTIONS}"
        raise FieldError("captions", "wrong_caption_count", detail)
    return SourceRow(
        index=index,
        identity=name,
        split=options.split_or_test,
        file_path=name,
        other_paths=tuple(_other_paths(name)),
        captions=captions,
        positions=tuple(range(CAPTIONS)),
        attribution=_attribution(fields, options),
        coarse_captions=_texts(fields, "coarse_captions", options),
        translations=tuple(
            (match[1], _texts_or_null(fields, key, options))
            for key in sorted(fields)
            if (match := _TRANSLATED.fullmatch(key))
        ),
        contrast=contrast,
        is_grouped=True,
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
    method = fields.get("method")
    return SourceContrast(
        anchor=anchors[anchor],
        difference=_difference(fields.get(_ASPECT)),
        detail=optional_text(fields, "contrastive_detail", options) or "",
        plan=optional_text(fields, "contrastive_strategy", options) or "",
        method=method if method in ("search", "edit") else None,
    )


def _anchor_by_name(name: str) -> str:
    """Return the anchor by name: that of `391895_contrast_0.jpg` is `391895.jpg`."""
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


def _texts(fields: Mapping[str, Any], key: str, options: ReadOptions) -> tuple[str, ...]:
    """Return the captions of a list; empty if the field is missing."""
    listed = Field(key, fields.get(key, []))
    if not isinstance(listed.value, list):
        raise wrong_type(listed, "a list of captions")
    return tuple(
        checked_caption(Field(f"{key}[{at}]", value), options)
        for at, value in enumerate(listed.value)
    )


def _texts_or_null(
    fields: Mapping[str, Any], key: str, options: ReadOptions
) -> tuple[str | None, ...]:
    """Return the captions in another language, in their positions; None if one is null."""
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
    """Return other possible paths of the image: in a folder, or under its name in COCO."""
    path = PurePosixPath(name)
    names = [name]
    if _NUMBER.fullmatch(path.stem):
        number = f"{int(path.stem):012d}{path.suffix}"
        names += [number, f"COCO_val2014_{number}"]
    yield from dict.fromkeys(names[1:])
    for folder in _FOLDERS:
        yield from (f"{folder}/{one}" for one in dict.fromkeys(names))
