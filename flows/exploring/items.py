"""What the explorer shows of an image: its texts, and the fields that people filter by."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from loupe.annotate.queues import latest_flags, newest_reports
from loupe.db.annotations import counted_answers
from loupe.db.blobs import BlobStore
from loupe.db.entities import StoredEntity, ancestor_ids, fetch, fetch_parents, newest_children
from loupe.db.exploring import image_ids, open_queues, texts_of
from loupe.db.lineage import Lineage, find_entity_id, trace
from loupe.db.release_rows import corrections_of
from loupe.db.store import Store
from loupe.release.format.manifest import read_manifest
from loupe.release.format.row_files import ListedRelease
from loupe.release.lineage.reading import open_lineage
from loupe.release.withdrawn.files import affected_rows
from loupe.release.withdrawn.notices import known_of
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.proposals import Tracklet
from loupe.schemas.provenance import SOURCE_ROLES, Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Image, Rewrite, Source
from loupe.schemas.withdrawal import WithdrawalNotice

Value = str | int | float | bool
LINEAGE = "/loupe/lineage/"
"""The beginning of the address of an item's lineage, at the door of the explorer."""


class ItemText(NamedTuple):
    """A caption or rewrite; `live` ones may be released."""

    id: str
    text: str
    author: str
    kind: str
    state: str

    @property
    def shown(self) -> str:
        """The text with its author and state."""
        return f"{self.text}\n— {self.author} · {self.kind} · {self.state}"

    @property
    def digest(self) -> str:
        """The digest that its vector is stored under."""
        return sha256_of(self.text.encode("utf-8", "surrogatepass"))


class Item(NamedTuple):
    """An image with its texts and fields; `path` says where its file lies."""

    id: str
    name: str
    path: str
    width_px: int
    height_px: int
    sha256: str
    texts: tuple[ItemText, ...]
    fields: dict[str, Value]


class Items(Protocol):
    """Images to explore, of a dataset in the store or of a release."""

    name: str

    def ids(self) -> Sequence[str]:
        """Return the ids of all images, in a fixed order."""

    def digests(self, ids: Sequence[str]) -> list[str]:
        """Return the digests of the files of these images."""

    def read(self, ids: Sequence[str]) -> Iterator[Item]:
        """Return those of these images that are still there."""

    def image(self, id_: str) -> tuple[bytes, str]:
        """Return the bytes of an image, compared with their digest, and its media type.

        Raises:
            IntegrityError: there is none, or it is damaged.
        """

    def trace(self, id_: str) -> Lineage:
        """Return what an image was made from.

        Raises:
            UsageError: there is no such image.
        """


class StoreItems:
    """The images of a dataset in the store."""

    def __init__(self, store: Store, blobs: BlobStore, dataset: str) -> None:
        self.name = dataset
        self._store = store
        self._blobs = blobs
        self._licences: dict[str, str] = {}

    def ids(self) -> list[str]:
        """Return the ids of all images that are not withdrawn, oldest first."""
        return image_ids(self._store, self.name)

    def digests(self, ids: Sequence[str]) -> list[str]:
        """Return the digests of the images' blobs."""
        return [one.record(Image).sha256 for one in fetch(self._store, ids).values()]

    def read(self, ids: Sequence[str]) -> Iterator[Item]:
        """Return the images with everything that the store knows of them."""
        store = self._store
        images = [one for one in fetch(store, ids).values() if one.state != "withdrawn"]
        texts = texts_of(store, [one.id for one in images])
        of_texts = [one.id for many in texts.values() for one in many]
        facts = _Facts(store, [one.id for one in images], of_texts)
        licences = self._licences_of([one.id for one in images])
        for image in images:
            record = image.record(Image)
            attribution = record.attribution
            own = attribution.licence if attribution else None
            licence = own or licences.get(image.id)
            fields: dict[str, Value | None] = {
                "state": image.state,
                "split": image.split,
                "source": record.source,
                "identity": record.identity,
                "task": record.task,
                "tier": record.tier,
                "licence": licence,
                "difference": record.contrast.difference if record.contrast else None,
                "captions": len(texts[image.id]),
                **facts.fields(image.id, [one.id for one in texts[image.id]]),
                "lineage": f"{LINEAGE}{image.id}",
            }
            yield Item(
                image.id,
                record.file_path,
                self._blobs.path_of(record.sha256, record.media_type),
                record.width_px,
                record.height_px,
                record.sha256,
                tuple(map(_text, texts[image.id])),
                _known(fields),
            )

    def _licences_of(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the licence of the source of each image, as it was last corrected."""
        with self._store.read() as connection:
            above = ancestor_ids(connection, ids, SOURCE_ROLES, Source.kind)
        sources = {one for many in above.values() for one in many}
        new = sources - self._licences.keys()
        corrected = corrections_of(self._store, new)
        for id_, source in fetch(self._store, new).items():
            terms = corrected[id_][1] if id_ in corrected else source.record(Source)
            self._licences[id_] = terms.licence
        return {id_: self._licences[min(many)] for id_, many in above.items() if many}

    def image(self, id_: str) -> tuple[bytes, str]:
        """Return the bytes of an image from the blob store."""
        image = fetch(self._store, [id_]).get(id_)
        if image is None or image.kind != Image.kind or image.state == "withdrawn":
            raise IntegrityError(f"{self.name} has no image {id_}")
        record = image.record(Image)
        return self._blobs.read(record.sha256, record.media_type), record.media_type

    def trace(self, id_: str) -> Lineage:
        """Return the lineage of an image in the store."""
        return trace(self._store, find_entity_id(self._store, id_))


class _Facts:
    """What checks and people said about some images and their texts."""

    def __init__(self, store: Store, images: Sequence[str], texts: Sequence[str]) -> None:
        ids = [*images, *texts]
        self._queues = open_queues(store)
        with store.read() as connection:
            self._answers = counted_answers(connection, None, ids)
        self._reports = newest_reports(store, list(texts))
        self._flags = latest_flags(store, list(texts))
        checks = newest_children(store, texts, Role.EXAMINES)
        self._reasons = {id_: one.record(CaptionCheck).reasons for id_, one in checks.items()}
        self._suspicions = _suspicions(store, images)

    def fields(self, image: str, texts: Sequence[str]) -> dict[str, Value | None]:
        """Return the fields of an image, from what was said about it and its texts."""
        ids = [image, *texts]
        queues = sorted({queue for id_ in ids for queue in self._queues.get(id_, ())})
        reports = [self._reports[id_] for id_ in texts if id_ in self._reports]
        findings = set(self._suspicions.get(image, ()))
        for id_ in texts:
            findings.update(self._reasons.get(id_, ()) or ("flagged",) * bool(self._flags.get(id_)))
        findings.update(
            found.change for one in reports for found in one.findings if not found.minor
        )
        verdicts = {one.verdict for one in reports}
        shares = [agreed for id_ in ids if (agreed := self._agreement(id_)) is not None]
        return {
            "queue": ", ".join(queues) or None,
            "agreement": round(sum(shares) / len(shares), 2) if shares else None,
            "findings": ", ".join(sorted(findings)) or None,
            "faithfulness": max(verdicts, default=None),  # suspect before faithful
            "blurred": "blurred" in findings if image in self._suspicions else None,
        }

    def _agreement(self, id_: str) -> float | None:
        """Return the share of answers with the most frequent verdict; None below two answers."""
        verdicts = Counter(one.answer.get("verdict") for one in self._answers.get(id_, ()))
        total = verdicts.total()
        return max(verdicts.values()) / total if total > 1 else None


def _suspicions(store: Store, images: Sequence[str]) -> dict[str, set[str]]:
    """Return what the noise filter suspected of each crop of a video."""
    found: dict[str, set[str]] = {}
    tracklets = fetch_parents(store, images, Role.SELECTED_IN)
    records = fetch(store, list(tracklets))
    for id_, many in tracklets.items():
        sha256 = records[id_].record(Image).sha256
        frames = [frame for one in many for frame in one.record(Tracklet).frames]
        of_crop = [one.suspicions for one in frames if one.crop.sha256 == sha256]
        found[id_] = {name for names in of_crop for name in names}
    return found


def _text(entity: StoredEntity) -> ItemText:
    if entity.kind == Rewrite.kind:
        rewrite = entity.record(Rewrite)
        return ItemText(entity.id, rewrite.text, rewrite.author, "rewrite", entity.state)
    caption = entity.record(Caption)
    author = caption.author or caption.source
    return ItemText(entity.id, caption.text, author, "caption", entity.state)


def _known(fields: dict[str, Any]) -> dict[str, Value]:
    """Leave out what is not known, and make plain texts of names."""
    return {
        name: value if isinstance(value, bool | int | float) else str(value)
        for name, value in fields.items()
        if value is not None
    }


class ReleaseItems:
    """The images of a release in a folder, without rows that a withdrawal concerns."""

    def __init__(self, folder: Path, notices: Iterable[WithdrawalNotice] = ()) -> None:
        manifest = read_manifest(folder)
        self.name = f"{manifest.dataset} {manifest.version}"
        self._folder = folder
        self._release = ListedRelease(folder)
        known = known_of(manifest.id, folder, notices)
        withdrawn = {one.number for one in affected_rows(known)}
        self._rows: dict[str, dict[str, Any]] = {
            row["image_entity_id"]: row
            for number, row in enumerate(self._release.rows(lambda row: row), 1)
            if number not in withdrawn
        }
        licences = {one.name: one.licence for one in manifest.sources}
        self._licence: Callable[[str], str | None] = licences.get

    def ids(self) -> list[str]:
        """Return the ids of all images, in the order of the rows."""
        return list(self._rows)

    def digests(self, ids: Sequence[str]) -> list[str]:
        """Return the digests of the images' files."""
        return [self._rows[id_]["sha256"] for id_ in ids]

    def read(self, ids: Sequence[str]) -> Iterator[Item]:
        """Return the images with what the release says of them."""
        for id_ in ids:
            if (row := self._rows.get(id_)) is not None:
                yield self._item(id_, row)

    def _item(self, id_: str, row: dict[str, Any]) -> Item:
        contrast = row.get("contrast") or {}
        fields = {
            "state": "accepted",
            "split": row["split"],
            "source": row["source"],
            "identity": row["identity"],
            "task": row.get("task"),
            "tier": row.get("tier"),
            "licence": row.get("licence") or self._licence(row["source"]),
            "difference": contrast.get("difference"),
            "captions": len(row["captions"]),
            "reviewed": all(row["caption_reviewed"]),
            "lineage": f"{LINEAGE}{id_}",
        }
        columns = ("entity_ids", "authors", "origins")
        parts = (row["captions"], *(row[f"caption_{name}"] for name in columns))
        texts = [
            ItemText(text_id, text, author, origin, "accepted")
            for text, text_id, author, origin in zip(*parts, strict=True)
        ]
        return Item(
            id_,
            row["file_path"],
            str(self._folder / row["file_path"]),
            row["width_px"],
            row["height_px"],
            row["sha256"],
            tuple(texts),
            _known(fields),
        )

    def image(self, id_: str) -> tuple[bytes, str]:
        """Return the bytes of an image from the files of the release."""
        row = self._rows.get(id_)
        if row is None:
            raise IntegrityError(f"{self.name} has no image {id_}")
        self._release.check([row["file_path"]])
        data = (self._folder / row["file_path"]).read_bytes()
        return data, "image/png" if row["file_path"].endswith(".png") else "image/jpeg"

    def trace(self, id_: str) -> Lineage:
        """Return the lineage of an image in the release."""
        with open_lineage(self._folder) as released:
            return released.trace(released.find(id_))


class Filter(NamedTuple):
    """A condition on a field: `NAME=VALUE`, `NAME!=VALUE`, `NAME<NUMBER` or `NAME>NUMBER`."""

    name: str
    sign: str
    value: str

    @classmethod
    def parsed(cls, text: str) -> "Filter":
        """Parse a condition.

        Raises:
            UsageError: it has another form.
        """
        for sign in ("!=", "=", "<", ">"):
            name, found, value = text.partition(sign)
            if found and name.strip() and (sign in ("=", "!=") or _is_number(value)):
                return cls(name.strip(), sign, value.strip())
        raise UsageError(
            f"a filter is NAME=VALUE, NAME!=VALUE, NAME<NUMBER or NAME>NUMBER; got {text!r}"
        )

    def keeps(self, fields: dict[str, Value]) -> bool:
        """Tell whether an item meets the condition; one without the field meets only `!=`."""
        value = fields.get(self.name)
        if self.sign in ("=", "!="):
            return (value is not None and _is_same(value, self.value)) == (self.sign == "=")
        if isinstance(value, str | None):
            return False
        return value < float(self.value) if self.sign == "<" else value > float(self.value)


def _is_same(value: Value, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted.lower() == str(value).lower()
    if isinstance(value, str):
        return wanted == value or wanted in value.split(", ")
    return _is_number(wanted) and float(wanted) == value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
