"""The rows of a release: their columns, one image with its captions, and their order."""

import re
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import starmap
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from loupe.schemas.base import Box, Split, canonical_json, sha256_of
from loupe.schemas.faces import TreatedFaces
from loupe.schemas.release import DatasetForm, Manifest
from loupe.schemas.taxonomy import DifferenceType, RetrievalTask, Tier

SPLITS: tuple[Split, ...] = ("train", "val", "test")

_DIGITS = re.compile(rb"[0-9]+")


class RowKey(NamedTuple):
    """The sort key of a row: split, source, identity, and the path of the image in its source."""

    split: int
    source: bytes
    identity: bytes
    file_path: bytes

    @classmethod
    def of(cls, split: Split, source: str, identity: str, file_path: str) -> "RowKey":
        """The key of an image, which is unique in a release."""
        return cls(
            SPLITS.index(split),
            natural_key(source),
            natural_key(identity),
            natural_key(file_path),
        )

    def neutral(self) -> "RowKey":
        """The key of the same image in an order that does not follow the names in its source.

        These may number what was made first.
        """
        identity, file_path = (
            sha256_of(self.source + name).encode() for name in (self.identity, self.file_path)
        )
        return RowKey(self.split, self.source, identity, file_path)


@lru_cache(maxsize=4096)  # sources and identities repeat from row to row
def natural_key(text: str) -> bytes:
    """Bytes that sort naturally: 9 before 10, `a9` before `a10`; different for every text."""
    data = text.encode()
    return _DIGITS.sub(_number, data) + b"\0\0" + data  # the text itself distinguishes 01 from 1


def _number(digits: re.Match[bytes]) -> bytes:
    significant = digits[0].lstrip(b"0")
    return b"\0\1" + len(significant).to_bytes(4, "big") + significant


_PUBLISHED = ("id", "source", "split", "file_path", "captions")
_PUBLISHED_TASK = ("id", "source", "task", "tier", "split", "file_path", "captions")
_PUBLISHED_CROP = ("split", "id", "file_path", "captions")
_PUBLISHED_CONTRAST = ("coarse_captions", "translations", "contrast")
_PUBLISHED_TERMS = ("licence", "creator", "source_url")
_OF_CONTRAST = ("anchor", "difference", "detail", "plan", "method")


class RowForm(NamedTuple):
    """Optional columns of rows.

    Attributes:
        tasks: task and tier, for benchmarks of tasks.
        contrasts: coarse captions, translations, and the difference from the anchor.
        terms: licence, creator and source page, if images have their own terms.
        own: columns of the dataset's own records.
        encoded: the digest of the stored image, if all images were encoded for the release.
        faces: what was done to faces, if they were not kept in all images.
    """

    tasks: bool = False
    contrasts: bool = False
    terms: bool = False
    own: tuple["Column", ...] = ()
    encoded: bool = False
    faces: bool = False

    @classmethod
    def of(cls, columns: Container[str], own: tuple["Column", ...] = ()) -> "RowForm":
        """The form of rows with these columns, and columns of their own."""
        return cls(
            "task" in columns,
            "contrast" in columns,
            "licence" in columns,
            own,
            "stored_sha256" in columns,
            "faces" in columns,
        )

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has the columns of this form and no others."""
        own = {one.name for one in self.own}
        is_plain = RowForm.of(row, self.own) == self
        return is_plain and own == {name for name in row if name not in _NAMES_OF_COLUMNS}


PLAIN = RowForm()
"""Rows without optional columns."""


class Column(NamedTuple):
    """A column of rows, or a part of one, as `columns.toml` declares it.

    `form` is the field of `RowForm` that a release must have for it; None for every release.
    """

    name: str
    type: str | None = None
    meaning: str = ""
    form: str | None = None
    is_list: bool = False
    repeating: bool = False
    parts: tuple["Column", ...] = ()


def _column(name: str, values: Mapping[str, Any]) -> Column:
    parts = tuple(_column(*one) for one in values.get("parts", {}).items())
    return Column(name, **{**values, "parts": parts})


_DECLARED = tomllib.loads(files("loupe.release.format").joinpath("columns.toml").read_text("utf-8"))
COLUMNS: tuple[Column, ...] = tuple(_column(*one) for one in _DECLARED.items())
"""All possible columns of a release, in order."""
_NAMES_OF_COLUMNS = frozenset(column.name for column in COLUMNS)
BESIDE_IMAGES = [column.name for column in COLUMNS if column.name != "image"]
"""All columns but the image."""


def columns_of(form: RowForm) -> tuple[Column, ...]:
    """The columns of rows of a form."""
    known = tuple(one for one in COLUMNS if one.form is None or getattr(form, one.form))
    return (*known, *form.own)


ENTITY = "entity_id"
CAPTION = "caption"
_OWN_PARTS = (
    Column(ENTITY, "string", "The entity of the record."),
    Column(
        CAPTION, "int64", "The index of the caption that it is about, from 0; -1 for the image."
    ),
)


def own_column(name: str, meaning: str, parts: Iterable[Column]) -> Column:
    """A column of a dataset's own records: a list, as an image may have several."""
    return Column(name, meaning=meaning, is_list=True, parts=(*parts, *_OWN_PARTS))


def own_values(column: Column, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record as its column has them; values of other types are written as JSON."""
    values: dict[str, Any] = {}
    for part in column.parts:
        if part in _OWN_PARTS:
            continue
        value = fields.get(part.name)
        if part.is_list and value is not None:
            values[part.name] = [_as_text(one, part) for one in value]
        else:
            values[part.name] = _as_text(value, part)
    return values


def _as_text(value: Any, part: Column) -> Any:
    if value is None or part.type != "string" or isinstance(value, str):
        return value
    return canonical_json(value)


def own_names(columns: Iterable[str]) -> list[str]:
    """Those of the names of columns that are a dataset's own."""
    return [name for name in columns if name not in _NAMES_OF_COLUMNS]


def _own_records(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The records in the own columns of a row."""
    for name in own_names(row):
        if isinstance(row[name], list):
            yield from row[name]


def form_of(manifest: Manifest) -> RowForm:
    """The form of a release, which determines the columns of its rows."""
    counted = manifest.statistics
    contrasts = counted.contrasts is not None
    own = own_columns_of(manifest.form) if manifest.form else ()
    terms = bool(counted.licences) or contrasts
    encoded, faces = manifest.encoding is not None, bool(counted.faces)
    return RowForm(bool(counted.tasks), contrasts, terms, own, encoded, faces)


def own_columns_of(form: DatasetForm) -> tuple[Column, ...]:
    """The own columns of a dataset, as rows have them."""
    return tuple(
        own_column(
            one.name,
            one.meaning or f"The records of the kind {one.name}.",
            [Column(part.name, part.type, part.meaning, None, part.is_list) for part in one.parts],
        )
        for one in form.columns
    )


def translated(row: Mapping[str, Any]) -> dict[str, list[str | None]]:
    """The captions of a row by language, in order; None for a missing translation."""
    texts: dict[str, list[str | None]] = {}
    for one in row["translations"]:
        places = texts.setdefault(one["language"], [None] * len(row["captions"]))
        places[one["caption"]] = one["text"]
    return texts


def text_entity_ids(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The entities of a row's texts: captions, coarse captions, translations, own records."""
    captions = row.get("caption_entity_ids") or ()
    coarse = row.get("coarse_caption_entity_ids") or ()
    translations = [one["entity_id"] for one in row.get("translations") or ()]
    records = [one[ENTITY] for one in _own_records(row)]
    return (*captions, *coarse, *translations, *records)


def entity_ids_in(row: Mapping[str, Any]) -> list[str]:
    """The entities that a row names: its image, texts, and where the image was cut from."""
    ids = [row["image_entity_id"], *text_entity_ids(row)]
    if contrast := row.get("contrast"):
        ids.append(contrast["anchor_entity_id"])
    if crop := row["crop"]:
        ids += [crop["tracklet_entity_id"], crop["video_entity_id"]]
    return ids


def published_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, given by its columns, in the published JSON format.

    The format is UFine6926's for images cut from videos, else UFine3C's, which also states the
    source. Task, tier, contrast and terms are added if the rows have any.
    """
    form = RowForm.of(row)
    fields = [*(_PUBLISHED_CROP if row["crop"] else _PUBLISHED_TASK if form.tasks else _PUBLISHED)]
    fields += _PUBLISHED_CONTRAST if form.contrasts else ()
    fields += _PUBLISHED_TERMS if form.terms else ()
    fields += own_names(row)
    details = {field: row[field] for field in fields}
    if form.contrasts:
        contrast = row["contrast"]
        details["translations"] = translated(row)
        details["contrast"] = contrast and {field: contrast[field] for field in _OF_CONTRAST}
    return details


CaptionOrigin = Literal[
    "source",
    "written",
    "drafted",
    "edited_draft",
    "confirmed_draft",
    "edited",
    "rewrite",
    "edited_rewrite",
]
"""From the source; written by a person; drafted by a model; drafted by a model and edited or
accepted unchanged by a person; derived by a person from another text; rewritten by a model; a
person's edit of a rewrite.
"""


class ReleasedCaption(NamedTuple):
    """A text that describes an image. The author of a source's text is the source.

    `drafter` is the model whose draft a person's description began as.
    """

    text: str
    entity_id: str
    author: str
    origin: CaptionOrigin
    reviewed: bool
    drafter: str = ""

    @property
    def is_rewrite(self) -> bool:
        """Whether it rephrases another caption."""
        return self.origin in ("rewrite", "edited_rewrite")


CAPTION_COLUMNS = {
    "text": "captions",
    "entity_id": "caption_entity_ids",
    "author": "caption_authors",
    "origin": "caption_origins",
    "reviewed": "caption_reviewed",
}
"""The columns of captions, by the fields of `ReleasedCaption`, whose order they have."""
COARSE_COLUMNS = {"text": "coarse_captions", "entity_id": "coarse_caption_entity_ids"}
"""The same for coarse captions."""


def captions_in(row: Mapping[str, Any], columns: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """The captions of a row, or its coarse ones, given `CAPTION_COLUMNS` or `COARSE_COLUMNS`.

    Raises:
        ValueError: if the columns have different lengths.
    """
    return zip(*(row[name] for name in columns.values()), strict=True)


def _columns_of(
    captions: Iterable[ReleasedCaption], columns: Mapping[str, str]
) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for name, column in columns.items():
        values[column] = [getattr(one, name) for one in captions]
    return values


class ReleasedCrop(NamedTuple):
    """The origin of a crop: video, frame, the person's box and the detector's score."""

    video: str
    video_sha256: str
    video_entity_id: str
    tracklet_entity_id: str
    frame: int
    time_seconds: float
    box_xyxy: Box
    score: float


class ReleasedTranslation(NamedTuple):
    """A caption of an image in another language (ISO 639-1).

    `caption` is the index of the translated caption in the row's captions, from 0.
    """

    language: str
    caption: int
    text: str
    entity_id: str
    author: str


class ReleasedContrast(NamedTuple):
    """How an image differs from its anchor, which is named by its file and its entity."""

    anchor: str
    difference: DifferenceType
    detail: str
    plan: str
    method: str | None
    anchor_entity_id: str


class ReleasedTerms(NamedTuple):
    """The licence and credit of an image.

    They are its `own` if they are not those of its source, `of_source` if the licence is.
    """

    licence: str
    creator: str | None
    source_url: str | None
    own: bool
    of_source: bool


NO_TERMS = ReleasedTerms("", None, None, own=False, of_source=True)


_SAME = (
    *("id", "source", "identity", "split", "file_path", "source_file_path", "image_entity_id"),
    *("sha256", "width_px", "height_px"),
)
"""Columns that are copied to a row unchanged."""


class ReleaseRow(NamedTuple):
    """An image with its captions. `number` counts rows and `id` persons, both from 1.

    `task` and `tier` are those of the image, for benchmarks of tasks. `coarse_captions`,
    `translations` and `contrast` are for contrastive benchmarks, in which `id` is the number of the
    image. `own` are the dataset's own records, by column. `stored_sha256` is the digest of the
    stored image if this one was encoded for the release; empty if it is the stored one. `faces` is
    what was done to its faces.
    """

    number: int
    id: int
    source: str
    identity: str
    split: Split
    file_path: str
    source_file_path: str
    captions: tuple[ReleasedCaption, ...]
    image_entity_id: str
    sha256: str
    media_type: str
    width_px: int
    height_px: int
    crop: ReleasedCrop | None = None
    task: RetrievalTask | None = None
    tier: Tier | None = None
    coarse_captions: tuple[ReleasedCaption, ...] = ()
    translations: tuple[ReleasedTranslation, ...] = ()
    contrast: ReleasedContrast | None = None
    terms: ReleasedTerms = NO_TERMS
    own: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({})
    stored_sha256: str = ""
    faces: TreatedFaces | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], terms: ReleasedTerms = NO_TERMS) -> "ReleaseRow":
        """The row with these columns, which must pass `RowFaults`.

        Raises:
            ValueError: if they have a fault.
            TypeError: if they have a fault.
        """
        crop, contrast, task = row["crop"], row.get("contrast"), row.get("task")
        coarse = captions_in(row, COARSE_COLUMNS) if "coarse_captions" in row else ()
        return cls(
            number=number_in(row["file_path"]) or 0,
            captions=tuple(starmap(ReleasedCaption, captions_in(row, CAPTION_COLUMNS))),
            media_type="",
            crop=crop and ReleasedCrop(**crop),
            task=task and RetrievalTask(task),
            tier=row.get("tier"),
            coarse_captions=tuple(
                ReleasedCaption(text, id_, "", "source", reviewed=False) for text, id_ in coarse
            ),
            translations=tuple(ReleasedTranslation(**one) for one in row.get("translations") or ()),
            contrast=contrast
            and ReleasedContrast(**contrast)._replace(
                difference=DifferenceType(contrast["difference"])
            ),
            terms=terms,
            own={name: row[name] for name in own_names(row)},
            stored_sha256=row.get("stored_sha256") or "",
            faces=TreatedFaces(**row["faces"]) if row.get("faces") else None,
            **{name: row[name] for name in _SAME},
        )

    def columns(self, form: RowForm) -> dict[str, Any]:
        """All columns of the row but `image`."""
        row: dict[str, Any] = {
            **{name: getattr(self, name) for name in _SAME},
            **_columns_of(self.captions, CAPTION_COLUMNS),
            "crop": self.crop and self.crop._asdict(),
        }
        if form.encoded:
            row["stored_sha256"] = self.stored_sha256
        if form.faces:
            row["faces"] = self.faces and self.faces.model_dump()
        if form.tasks:
            row |= {"task": self.task, "tier": self.tier}
        if form.contrasts:
            row |= {
                **_columns_of(self.coarse_captions, COARSE_COLUMNS),
                "translations": [one._asdict() for one in self.translations],
                "contrast": self.contrast and self.contrast._asdict(),
            }
        if form.terms:
            row |= zip(("licence", "creator", "source_url"), self.terms, strict=False)
        row |= {column.name: list(self.own.get(column.name, ())) for column in form.own}
        return row

    def entity_ids(self) -> list[str]:
        """The entities of the row: image, tracklet if any, captions in order.

        Captions are followed by coarse captions, then by translations and own records.
        """
        tracklet = [self.crop.tracklet_entity_id] if self.crop else []
        return [
            self.image_entity_id,
            *tracklet,
            *(one.entity_id for one in (*self.captions, *self.coarse_captions)),
            *(one.entity_id for one in self.translations),
            *(str(one[ENTITY]) for many in self.own.values() for one in many),
        ]


_NAME = re.compile(
    r"images/(?:[1-9][0-9]{0,17}_)?([1-9][0-9]{0,17})\.(?!(?:json|txt)\Z)[a-z]{1,15}"
)
"""Short enough for every export, which write files with the endings `json` and `txt`."""
_MAY_BE_ABSENT = {"crop", "faces", "task", "tier", "contrast", "creator", "source_url"}
_ORIGINS = frozenset(get_args(CaptionOrigin))
_TYPES = tuple(kind.value for kind in DifferenceType)
_METHODS = ("search", "edit", None)
_SHOWN_CHARACTERS = 120


def _is_task(name: object) -> bool:
    try:
        return name is None or (isinstance(name, str) and RetrievalTask(name) == name)
    except ValueError:
        return False


def number_in(file_path: object) -> int | None:
    """The row number in an image path: 13 for `images/12_13.jpg`; None if it is not such a path."""
    name = _NAME.fullmatch(file_path) if isinstance(file_path, str) else None
    return int(name[1]) if name else None


def image_path(name: str) -> str:
    """The path of the image called `name`, with or without its folder: `images/12.jpg`."""
    return f"images/{name.removeprefix('images/')}"


class RowFaults:
    """Checks rows of a Parquet file called `data/<split>-…`.

    Releases may come from anyone, so that no value of a row is used as a name or stored in a record
    before it passed these checks.
    """

    def __init__(
        self, shard: str, sources: frozenset[str], tiers: Container[str | None] | None = None
    ) -> None:
        self._split = shard.rpartition("/")[2].partition("-")[0]
        self._sources = sources
        self._tiers = tiers

    def first(self, number: int | None, columns: Mapping[str, Any]) -> str | None:
        """The first fault of the row with this number, phrased to follow "row 12", or None."""
        return next((what for _, what in self.all(number, columns)), None)

    def all(self, number: int | None, columns: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """All faults of a row, given all columns but the image: code, and words.

        Without a `number`, the name of its image is a fault.
        """
        absent = {name for name, value in columns.items() if value is None} - _MAY_BE_ABSENT
        if absent:
            yield "row_malformed", f"has no {', '.join(sorted(absent))}"
            return
        if number is None or number_in(columns["file_path"]) != number:
            wanted = f"expected 'images/{number or 'NUMBER'}.jpg'"
            yield "row_unnumbered", f"calls its image {shown(columns['file_path'])}; {wanted}"
        if columns["split"] != self._split:
            yield "split_wrong", f"says it is in the split {shown(columns['split'])}"
        if columns["source"] not in self._sources:
            what = f"is from {shown(columns['source'])}, for which manifest.json states no licence"
            yield "licence_missing", what
        yield from _faults_of_texts(columns)
        yield from _faults_of_structs(columns)
        if not columns.get("licence", "unknown").strip():
            yield "licence_missing", "states no licence for its image"
        if not _is_task(task := columns.get("task")):
            what = f"is for the task {task!r}; expected up to 60 letters, digits, spaces, hyphens"
            yield "task_wrong", what
        if self._tiers is not None and columns.get("tier") not in self._tiers:
            what = f"is of the tier {columns.get('tier')!r}, which the release does not include"
            yield "tier_wrong", what


def _faults_of_texts(columns: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Faults of parallel lists, which must have the same length and no missing values."""
    tables = (CAPTION_COLUMNS, COARSE_COLUMNS)
    for table in tables if "coarse_captions" in columns else tables[:1]:
        count = len(columns[table["text"]])
        for name in table.values():
            texts = columns[name]
            if len(texts) != count:
                what = f"has {count:,} {table['text']} and {len(texts):,} {name}"
                yield "captions_differ", what
            if None in texts:
                yield "row_malformed", f"has a missing value in {name}"
    if unknown := set(columns["caption_origins"]) - _ORIGINS - {None}:
        yield "row_malformed", f"has a caption of the unknown origin {min(unknown)!r}"


def _faults_of_structs(columns: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    crop, contrast, faces = columns["crop"], columns.get("contrast"), columns.get("faces")
    translations = columns.get("translations") or ()
    for one in _own_records(columns):
        if not one or not one[ENTITY] or not -1 <= one[CAPTION] < len(columns["captions"]):
            yield "row_malformed", "has a record of its own without an entity or a caption"
    if crop and None in (*crop.values(), *(crop["box_xyxy"] or ())):
        yield "row_malformed", "has a crop that is not complete"
    elif crop and not all(map(isfinite, (crop["time_seconds"], crop["score"], *crop["box_xyxy"]))):
        yield "row_malformed", "has a crop with a number that is not finite"
    if faces and not _are_faces(faces):
        yield "row_malformed", "does not say completely what was done to its faces"
    if contrast and any(value is None for name, value in contrast.items() if name != "method"):
        yield "contrast_wrong", "has a contrast that is not complete"
    elif contrast and not (contrast["anchor"] and contrast["anchor_entity_id"]):
        yield "contrast_wrong", "has a contrast without an anchor"
    elif contrast and contrast["difference"] not in _TYPES:
        what = f"differs by {contrast['difference']!r}; expected one of {', '.join(_TYPES)}"
        yield "difference_unknown", what
    elif contrast and contrast["method"] not in _METHODS:
        what = f"has a contrast that was neither found nor edited: {contrast['method']!r}"
        yield "contrast_wrong", what
    if any(one is None or None in one.values() for one in translations):
        yield "row_malformed", "has a translation that is not complete"
    elif any(not 0 <= one["caption"] < len(columns["captions"]) for one in translations):
        yield "translation_of_nothing", "has a translation of a caption that does not exist"


def _are_faces(values: Mapping[str, Any]) -> bool:
    try:
        TreatedFaces(**values)
    except ValueError:
        return False
    return True


def shown(value: Any) -> str:
    """A value in a message, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
