"""One session of the explorer: what the door asks is answered from the store or a release."""

import io
import json
import re
import threading
from base64 import b64decode
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from loupe.db.exploring import changed_images, mark_now
from loupe.db.lineage import Lineage
from loupe.db.releases import StateMark
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import CachedEmbedder, of_texts
from loupe.flows.engine.report import StageReport
from loupe.flows.exploring.items import Filter, Items, StoreItems
from loupe.flows.exploring.looks import Looks
from loupe.flows.exploring.table import (
    NOTHING_COMPARED,
    Compared,
    require_fields,
    write_table,
)
from loupe.flows.exploring.vectors import (
    Space,
    best_space,
    image_vectors,
    neighbours,
    query_image,
)
from loupe.models.profiles.loader import load_profile
from loupe.schemas.errors import UsageError
from loupe.schemas.processes import write_atomically
from loupe.services.credentials import private_folder
from loupe.services.explorer import Studio

FOLDER = "explorer"
_TAGS = "tags.json"
_LOOKS = "looks.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def folder_of(home: Path, name: str) -> Path:
    """Return the folder for what is explored: its tags, and a database that is a cache."""
    folder = private_folder(home, FOLDER) / _UNSAFE.sub("-", name)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def stored_tags(home: Path, name: str) -> dict[str, list[str]]:
    """Return the ids of the images of each tag that was given in the explorer."""
    with suppress(FileNotFoundError):
        return dict(json.loads((folder_of(home, name) / _TAGS).read_bytes()))
    return {}


class Session:
    """Shows images in a LightlyStudio, and follows a store that changes meanwhile."""

    def __init__(
        self,
        context: RunContext,
        items: Items,
        filters: Sequence[Filter],
        tree: Callable[[Lineage], Any],
        decide: Callable[[RunContext, dict[str, Any]], tuple[bool, str]],
    ) -> None:
        """Prepare a session.

        Args:
            context: the store, and the settings.
            items: the images to show.
            filters: only images that meet all of these.
            tree: draws a lineage.
            decide: answers the form of a decision (`loupe.flows.exploring.deciding.answer_form`).
        """
        self._context = context
        self._items = items
        self._filters = filters
        self._tree = tree
        self._decide = decide
        self._folder = folder_of(context.settings.home, items.name)
        self._table = self._folder / "items.parquet"
        self._looks = Looks(self._folder / _LOOKS)
        self._lock = threading.Lock()
        self._mark: StateMark | None = None
        self._compared: Compared = NOTHING_COMPARED
        self._space: Space | None = None
        self._dimension = 0
        self._studio: Studio | None = None

    def write(self) -> int:
        """Write all images for the first time; return how many are shown.

        Raises:
            UsageError: there are none, or a filter names an unknown field.
        """
        self._mark = mark_now(self._context.store)
        ids = self._items.ids()
        if not ids:
            raise UsageError(f"{self._items.name} has no images yet")
        report, progress = StageReport(f"read {self._items.name}"), self._context.progress

        def on_page(images: int) -> None:
            report.done += images
            progress.advance(report.stage, images)

        with progress.shown(report, len(ids)):
            self._compare(ids)
            written = write_table(
                self._table, self._items, ids, self._compared, self._filters, on_page, self._looks
            )
            self._looks.keep()
        require_fields(self._filters, written.fields)
        if not written.shown:
            raise UsageError(f"no image of {self._items.name} meets the filters")
        return written.shown

    def open(self, studio: Studio) -> None:
        """Load the written images, and the tags of earlier sessions, into LightlyStudio."""
        self._studio = studio
        self._load(stored_tags(self._context.settings.home, self._items.name))

    def _compare(self, ids: Sequence[str]) -> None:
        """Find the vectors of all images, and what is nearest to what."""
        store = self._context.store
        digests = self._items.digests(ids)
        profile = load_profile(self._context.settings.profile)
        self._space = best_space(store, profile, digests)
        if self._space is None:
            self._compared = NOTHING_COMPARED
            return
        vectors = image_vectors(store, self._space.key, digests)
        self._dimension = vectors.rows.shape[1]
        near = neighbours(vectors.rows)
        self._compared = Compared(store, vectors, near, self._space.text_space(store))

    def _load(self, tags: dict[str, list[str]] | None = None) -> None:
        assert self._studio is not None  # noqa: S101 - for the type checker
        self._studio.load(
            self._table,
            space=self._space.name if self._space else None,
            dimension=self._dimension,
            searchable=bool(self._space and self._space.model),
            tags=tags or {},
        )

    # What the door asks.

    def image(self, id_: str) -> tuple[bytes, str]:
        """Return the bytes of an image and its media type."""
        return self._items.image(id_)

    def lineage(self, id_: str) -> str:
        """Return where an image comes from, as `loupe lineage` prints it."""
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(self._tree(self._items.trace(id_)))
        return console.export_text()

    def decide(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Plan a decision, or make it, and show its results."""
        success, sentence = self._decide(self._context, request)
        self.refresh()
        return success, sentence

    def embed(self, request: dict[str, Any]) -> list[list[float]]:
        """Return the vectors of texts, or of images, by the model of the shown vectors."""
        if self._space is None or self._space.model is None:
            raise UsageError("no model is known for the stored vectors")
        model = self._space.model
        if texts := request.get("texts"):
            embedder = CachedEmbedder(self._context.store, of_texts(model))
            return cast("list[list[float]]", embedder.embed_texts(texts).tolist())
        files = [query_image(b64decode(one)) for one in request["images"]]
        found = CachedEmbedder(self._context.store, model).embed_images(files).tolist()
        return cast("list[list[float]]", found)

    def refresh(self) -> None:
        """Load images that are new or changed since the last time."""
        if not isinstance(self._items, StoreItems):
            return
        with self._lock:
            store, before = self._context.store, self._mark
            now = mark_now(store)
            if before is None or now == before:
                return
            changed = sorted(changed_images(store, self._items.name, before))
            if changed:
                if now.entity != before.entity:
                    self._compare(self._items.ids())
                write_table(
                    self._table,
                    self._items,
                    changed,
                    self._compared,
                    self._filters,
                    looks=self._looks,
                )
                self._looks.keep()
                self._load()
            self._mark = now

    def keep_tags(self) -> None:
        """Store the tags."""
        assert self._studio is not None  # noqa: S101 - for the type checker
        data = json.dumps(self._studio.tags(), indent=1).encode()
        write_atomically(self._folder / _TAGS, data)
