"""Releases and the store, opened for reading in scripts and notebooks."""

import io
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

from loupe.api.values import VALUES, Caption
from loupe.db.calls import cost_rows
from loupe.db.decisions import decision_rows
from loupe.db.entities import datasets_of, find, kinds_of
from loupe.db.lineage import Lineage, prov_json
from loupe.db.releases import find_release
from loupe.db.store import Store
from loupe.models.profiles.settings import Settings, load_settings
from loupe.release.format.manifest import release_folder
from loupe.release.format.row_files import ListedRelease
from loupe.release.verify import verify_release
from loupe.schemas.base import Split
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.provenance import State
from loupe.schemas.release import Manifest
from loupe.schemas.validation import nearest_hint
from loupe.schemas.wording import many

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN_ROWS = 5
_SHOWN_PX = 160
_SHOWN = 80
_IN_ROWS = {"file_path", "sha256", "caption_entity_ids"}


class OpenedRelease:
    """A release folder that is open for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listed = ListedRelease(folder)

    @property
    def manifest(self) -> Manifest:
        """What the release says about itself."""
        return self._listed.manifest

    @property
    def id(self) -> str:
        """The id of the release, which covers every file."""
        return self.manifest.id

    @property
    def splits(self) -> list[Split]:
        """The splits that it has."""
        return [one.split for one in self.manifest.statistics.splits]

    def __len__(self) -> int:
        return self.manifest.statistics.images

    def __repr__(self) -> str:
        counted = self.manifest.statistics
        return (
            f"Release {self.manifest.name} ({self.id[:12]}): {counted.images:,} images, "
            f"{counted.captions:,} captions, {', '.join(self.splits)}"
        )

    def _repr_html_(self) -> str:
        from itertools import islice

        rows = []
        for row in islice(self.rows(), _SHOWN_ROWS):
            texts = "".join(f"<li>{escape(one)}</li>" for one in row["captions"])
            image = f'<img src="{self._thumbnail(row)}" alt="image {row["id"]}">'
            rows.append(f"<tr><td>{image}</td><td><ul>{texts}</ul></td></tr>")
        return f"<p>{escape(repr(self))}</p><table>{''.join(rows)}</table>"

    def _thumbnail(self, row: Mapping[str, Any]) -> str:
        """Return a small copy of the picture of a row as an address; pages cannot read files."""
        picture = self.image(row)
        picture.thumbnail((_SHOWN_PX, _SHOWN_PX))
        written = io.BytesIO()
        picture.save(written, "JPEG", quality=85)
        return f"data:image/jpeg;base64,{b64encode(written.getvalue()).decode()}"

    def rows(self, split: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of all splits, or of one, without the bytes of images.

        Raises:
            IntegrityError: a row cannot be read.
        """
        self._require(split)
        yield from self._listed.rows(dict, split)

    def _require(self, split: str | None) -> None:
        if split is not None and split not in self.splits:
            raise UsageError(
                f"{self.manifest.name} has no split {split!r}; it has {', '.join(self.splits)}"
            )

    def to_arrow(self, split: str | None = None, *, images: bool = False) -> "pa.Table":
        """Return the rows as an Arrow table, with the bytes of images if `images` is true."""
        import pyarrow.parquet as pq

        self._require(split)
        shards = self._listed.shards(split)
        self._listed.check(shards)
        files = [str(self.folder / shard) for shard in shards]
        names = pq.read_schema(files[0]).names
        columns = None if images else [name for name in names if name != "image"]
        return pq.read_table(files, columns=columns)

    def to_pandas(self, split: str | None = None) -> Any:
        """Return the rows as a pandas data frame, without the bytes of images."""
        _require_library("pandas", "a data frame")
        return self.to_arrow(split).to_pandas()

    def to_datasets(self, split: str | None = None) -> Any:
        """Return the rows as a `datasets.Dataset`, with images, or a dictionary of all splits."""
        datasets = _require_library("datasets", "a dataset of Hugging Face")
        self._require(split)
        names = self.splits if split is None else [split]
        found = {}
        for name in names:
            shards = self._listed.shards(name)
            self._listed.check(shards)
            files = [str(self.folder / one) for one in shards]
            found[name] = datasets.Dataset.from_parquet(files, split=name, keep_in_memory=True)
        return found[split] if split is not None else datasets.DatasetDict(found)

    def to_torch(self, split: str | None = None) -> Any:
        """Return a dataset of torch: pairs of an image and one of its captions.

        An item is a dictionary with `image` (a picture of Pillow), `caption`, `id` and `row`.
        """
        torch = _require_library("torch", "a dataset of torch")
        release, rows = self, list(self.rows(split))
        pairs = [(place, text) for place, row in enumerate(rows) for text in row["captions"]]

        class Pairs(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
            def __len__(self) -> int:
                return len(pairs)

            def __getitem__(self, index: int) -> dict[str, Any]:
                place, text = pairs[index]
                row = rows[place]
                return {"image": release.image(row), "caption": text, "id": row["id"], "row": place}

        return Pairs()

    def image(self, row: Mapping[str, Any] | int) -> Any:
        """Return the image of a row, or of its number from 1, in RGB.

        Its bytes are checked against the row.

        Raises:
            UsageError: there is no such row.
            IntegrityError: the file is missing, or not the image of the row.
        """
        from loupe.flows.engine.embedding import image_file, read_image

        found = self._row(row)
        return read_image(image_file(found["sha256"], self.folder / found["file_path"]))

    def verify(self) -> None:
        """Check every file, digest, document and reference.

        Raises:
            IntegrityError: something is wrong; the message has the first problems.
        """
        found = verify_release(self.folder).problems
        if found:
            shown = "; ".join(one.message for one in found[:_SHOWN_ROWS])
            raise IntegrityError(f"{self.folder}: {len(found):,} problems: {shown}")

    def lineage(self, row: Mapping[str, Any] | int, caption: int | None = None) -> "Origin":
        """Return where the image of a row, or one of its captions, comes from.

        Args:
            row: a row, or its number from 1.
            caption: the index of one of its captions, from 0; None for the image.

        Raises:
            UsageError: there is no such row or caption.
        """
        from loupe.release.lineage.reading import open_lineage

        found = self._row(row)
        captions = len(found["caption_entity_ids"])
        stated: Any = caption
        if not (stated is None or (isinstance(stated, int) and 0 <= stated < captions)):
            raise UsageError(
                f"the row has {many(captions, 'caption')}, counted from 0; got {caption!r}"
            )
        with open_lineage(self.folder) as lineage:
            if caption is None:
                return Origin(lineage.trace_named(found["file_path"]))
            return Origin(lineage.trace(found["caption_entity_ids"][caption]))

    def _row(self, stated: Mapping[str, Any] | int) -> Mapping[str, Any]:
        """Return the row that is stated, by its number from 1 or itself."""
        if isinstance(stated, Mapping) and stated.keys() >= _IN_ROWS:
            return stated
        if not isinstance(stated, int):
            raise UsageError(
                f"a row must be one of rows(), or its number from 1; got {stated!r:.{_SHOWN}}"
            )
        for place, row in enumerate(self.rows(), 1):
            if place == stated:
                return row
        raise UsageError(f"{self.manifest.name} has {len(self):,} rows; there is no row {stated}")

    def score(self, embedder: str = "builtin", split: str | None = None) -> dict[str, Any]:
        """Return the evaluation of an embedder, with its scores in per cent.

        Args:
            embedder: as for `loupe evaluate`, such as "builtin" or "open_clip:NAME@WEIGHTS".
            split: the split (default: test, or the only split).
        """
        from loupe.flows.engine.context import open_context
        from loupe.flows.evaluation.run import EvaluationRequest, run_evaluation

        if not isinstance(embedder, str):
            raise UsageError(
                f"an embedder is named by a text, such as 'builtin' or 'plugin:NAME'; got "
                f"{embedder!r:.{_SHOWN}}"
            )
        context = open_context(load_settings())
        request = EvaluationRequest(str(self.folder), embedder=embedder, split=split)
        report = run_evaluation(context, request)
        (evaluation, *_) = report.as_json()["evaluations"]
        return dict(evaluation)


class Origin:
    """Where something comes from: a tree that can be printed, and W3C PROV as JSON."""

    def __init__(self, traced: Lineage) -> None:
        self._traced = traced

    def as_prov(self) -> dict[str, Any]:
        """Return it as PROV-JSON."""
        return dict(prov_json(self._traced))

    def __str__(self) -> str:
        from rich.console import Console

        from loupe.release.lineage.tree import lineage_tree

        console = Console(width=120, force_jupyter=False)  # it would show itself there
        with console.capture() as captured:
            console.print(lineage_tree(self._traced))
        return captured.get()

    __repr__ = __str__


def open_release(path: str | Path, settings: Settings | None = None) -> OpenedRelease:
    """Open a release by its folder, or by its name: "shop" (the newest) or "shop@0.1.0".

    Raises:
        UsageError: there is no such release.
        IntegrityError: its manifest is damaged.
    """
    if not isinstance(path, str | Path):
        raise UsageError(f"a release must be a folder, or a name such as 'shop'; got {path!r}")
    if (folder := release_folder(path)) is not None:
        return OpenedRelease(folder)
    own = _installation(settings)
    with closing(Store.open_existing(own.database_url, own.home)) as store:
        return OpenedRelease(find_release(store, str(path)).existing_folder())


_STATES = get_args(State)


class OpenedStore:
    """The store of an installation, for reading."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def close(self) -> None:
        """Close it."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"OpenedStore of {', '.join(self.datasets) or 'no dataset'}"

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def datasets(self) -> list[str]:
        """The names of all datasets."""
        return datasets_of(self._store)

    def _require(self, dataset: str) -> None:
        if dataset not in (known := self.datasets):
            hint = nearest_hint(str(dataset), known)
            raise UsageError(f"there is no dataset {dataset!r}; {hint}")

    def items(
        self, dataset: str, kind: str | type = Caption, state: str | Sequence[str] | None = None
    ) -> "pa.Table":
        """Return the items of a kind as an Arrow table: id, state, split, and their fields.

        Args:
            dataset: the dataset.
            kind: a kind such as "image", "caption" or your own, or its class.
            state: "proposed", "accepted", "rejected", "superseded", "inactive" or "withdrawn", or
                several of them (default: all).

        Raises:
            UsageError: there is no such dataset or state.
        """
        import json

        import pyarrow as pa

        self._require(dataset)
        name = self._kind(dataset, kind)
        states = [state] if isinstance(state, str) else state
        if not (states is None or isinstance(states, Sequence)):
            raise UsageError(f"state must be one of {', '.join(_STATES)}; got {state!r}")
        for stated in states or ():
            if stated not in _STATES:
                hint = nearest_hint(stated, _STATES)
                raise UsageError(f"no state is called {stated!r}; {hint}")
        rows = []
        for one in find(self._store, dataset, name, states=states):
            fields = json.loads(one.payload)
            row = {"id": one.id, "state": one.state, "split": one.split, "image": one.group}
            for key, value in fields.items():
                row.setdefault(key, value if _is_plain(value) else json.dumps(value))
            rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: _array([row.get(name) for row in rows]) for name in names}
        return pa.table(columns or {"id": pa.array([], pa.string())})

    def _kind(self, dataset: str, kind: str | type) -> str:
        """Return the name of a kind that the dataset or Loupe has."""
        from loupe.api.records import built_in_kinds

        name = kind if isinstance(kind, str) else VALUES.get(kind) or getattr(kind, "kind", None)
        known = {*kinds_of(self._store, dataset), *VALUES.values()}
        if name not in known | built_in_kinds() and not isinstance(kind, type):
            raise UsageError(f"no kind is called {kind!r}; {nearest_hint(str(kind), known)}")
        if not isinstance(name, str):
            raise UsageError(f"a kind is a text or a class of records; got {kind!r}")
        return name

    def decisions(self, dataset: str) -> "pa.Table":
        """Return all decisions on items of a dataset, oldest first."""
        import pyarrow as pa

        self._require(dataset)
        rows = [one._asdict() for one in decision_rows(self._store, dataset)]
        return pa.Table.from_pylist(rows) if rows else pa.table({"item": pa.array([], pa.string())})

    def costs(self, dataset: str | None = None) -> "pa.Table":
        """Return calls, tokens and cost by model."""
        import pyarrow as pa

        if dataset is not None:
            self._require(dataset)
        names = self.datasets if dataset is None else [dataset]
        rows = [row._asdict() for name in names for row in cost_rows(self._store, name)]
        return (
            pa.Table.from_pylist(rows) if rows else pa.table({"model": pa.array([], pa.string())})
        )


def _array(values: list[Any]) -> "pa.Array":
    """Return a column; of values of several types, their texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except pa.ArrowException:
        return pa.array([None if one is None else str(one) for one in values])


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def open_store(settings: Settings | None = None) -> OpenedStore:
    """Open the store of this installation for reading.

    Raises:
        ConfigurationError: there is no store.
    """
    own = _installation(settings)
    return OpenedStore(Store.open_existing(own.database_url, own.home))


def _installation(settings: Settings | None) -> Settings:
    """Return the settings, by default those of the working folder and the environment."""
    if not (settings is None or isinstance(settings, Settings)):
        raise UsageError(f"a home is named by LOUPE_HOME, not by settings; got {settings!r}")
    return settings or load_settings()


def _require_library(name: str, what: str) -> Any:
    """Import a library that only this needs.

    Raises:
        UsageError: it is not installed.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        fix = f"pip install {name}"
        raise UsageError(f"{what} needs {name}, which is not installed: {fix}") from error
