"""Loads items and tags into LightlyStudio's database, and reads tags back.

Rows are inserted by DuckDB itself, straight from a Parquet file: one at a time, a hundred thousand
images with their captions would take an hour. The ids of Loupe are the ids of samples, as both have
128 bits. Children and parents change in transactions of their own, since DuckDB checks a foreign
key against what is committed.
"""

from pathlib import Path
from uuid import UUID

from lightly_studio.core.image.image_dataset import ImageDataset
from lightly_studio.database import db_manager
from lightly_studio.models.collection import SampleType
from lightly_studio.models.embedding_model import EmbeddingModelCreate
from lightly_studio.models.sample import SampleTagLinkTable
from lightly_studio.models.tag import TagTable
from lightly_studio.resolvers import (
    collection_embedding_model_resolver,
    collection_resolver,
    embedding_model_resolver,
    tag_resolver,
)
from sqlmodel import Session, col, select

_MEMORY = "2GB"

_SHOWN = "SELECT * FROM read_parquet('{items}') WHERE NOT gone"
_TEXTS = f"SELECT id AS image, unnest(captions, recursive := true) FROM ({_SHOWN})"
_ALL = "SELECT id::UUID FROM read_parquet('{items}')"
_GONE = f"{_ALL} WHERE gone"

_STEPS = (
    (
        "INSERT OR IGNORE INTO sample (collection_id, sample_id, created_at, updated_at) "
        f"SELECT '{{images}}', id::UUID, now(), now() FROM ({_SHOWN})",
        "INSERT OR IGNORE INTO sample (collection_id, sample_id, created_at, updated_at) "
        f"SELECT '{{texts}}', text_id::UUID, now(), now() FROM ({_TEXTS})",
    ),
    (f"DELETE FROM caption WHERE parent_sample_id IN ({_ALL})",),
    (
        "INSERT OR IGNORE INTO image "
        "(file_name, width, height, file_path_abs, sample_id, created_at, updated_at) "
        f"SELECT name, width, height, path, id::UUID, now(), now() FROM ({_SHOWN})",
        "INSERT OR IGNORE INTO caption (sample_id, parent_sample_id, created_at, text) "
        f"SELECT text_id::UUID, image::UUID, now(), text FROM ({_TEXTS})",
        "INSERT OR IGNORE INTO metadata "
        "(custom_metadata_id, created_at, updated_at, data, metadata_schema, sample_id) "
        f"SELECT id::UUID, now(), now(), fields, types, id::UUID FROM ({_SHOWN})",
        "UPDATE metadata SET data = new.fields, metadata_schema = new.types, updated_at = now() "
        f"FROM ({_SHOWN}) AS new WHERE sample_id = new.id::UUID",
    ),
)
_VECTORS = (
    "INSERT OR IGNORE INTO sample_embedding (sample_id, embedding_model_id, embedding) "
    f"SELECT id::UUID, '{{model}}', vector::FLOAT[] FROM ({_SHOWN}) WHERE vector IS NOT NULL"
)
_CHILDREN = ("metadata", "image", "sample_embedding", "sampletaglinktable")


def create_dataset(name: str) -> ImageDataset:
    """Create the empty dataset in the connected database."""
    with db_manager.session() as session:
        session.connection().exec_driver_sql(f"SET memory_limit = '{_MEMORY}'")
    return ImageDataset.create(name)


def load(dataset: ImageDataset, items: Path, space: str | None, dimension: int) -> None:
    """Add the items of a Parquet file, replace those that are there, and remove those that went.

    Args:
        dataset: where to.
        items: the file; Loupe writes it (`loupe.flows.exploring.table`).
        space: the name of the space of the vectors; None without vectors.
        dimension: the length of a vector.
    """
    with db_manager.session() as session:
        texts = collection_resolver.get_or_create_child_collection(
            session=session, collection_id=dataset.collection_id, sample_type=SampleType.CAPTION
        )
        model = _model(session, dataset, space, dimension) if space else None
    names = {"items": str(items).replace("'", "''"), "images": dataset.collection_id}
    names |= {"texts": texts, "model": model}
    for statements in _STEPS:
        _execute([one.format_map(names) for one in statements])
    if model is not None:
        _execute([_VECTORS.format_map(names)])
    gone = _GONE.format_map(names)
    _execute([f"DELETE FROM {table} WHERE sample_id IN ({gone})" for table in _CHILDREN])
    _execute([f"DELETE FROM sample WHERE sample_id IN ({gone})"])


def _execute(statements: list[str]) -> None:
    with db_manager.session() as session:
        for statement in statements:
            session.connection().exec_driver_sql(statement)


def _model(session: Session, dataset: ImageDataset, space: str, dimension: int) -> UUID:
    """Return the id of the space of the vectors, which similarity search and the map use."""
    model = embedding_model_resolver.get_or_create(
        session,
        EmbeddingModelCreate(
            name=space, embedding_dimension=dimension, dataset_id=dataset.dataset_id
        ),
    )
    found = dataset.collection_id, model.embedding_model_id
    collection_embedding_model_resolver.get_or_add_collection_model(session, *found)
    collection_embedding_model_resolver.set_default(session, *found)
    return model.embedding_model_id


def write_tags(tags: dict[str, list[str]], dataset: ImageDataset) -> None:
    """Create tags with the items that are still there."""
    with db_manager.session() as session:
        for name, ids in tags.items():
            tag = tag_resolver.get_or_create_sample_tag_by_name(
                session=session, collection_id=dataset.collection_id, tag_name=name
            )
            listed = ", ".join(f"'{UUID(one)}'" for one in ids)
            if listed:
                session.connection().exec_driver_sql(
                    "INSERT OR IGNORE INTO sampletaglinktable (sample_id, tag_id) "  # noqa: S608
                    f"SELECT sample_id, '{tag.tag_id}' FROM sample WHERE sample_id IN ({listed})"
                )


def read_tags() -> dict[str, list[str]]:
    """Return the ids of the items of each tag."""
    with db_manager.session() as session:
        found: dict[str, list[str]] = {}
        for tag in session.exec(select(TagTable).order_by(col(TagTable.name))):
            links = select(SampleTagLinkTable.sample_id).where(
                SampleTagLinkTable.tag_id == tag.tag_id
            )
            found[tag.name] = sorted(one.hex for one in session.exec(links) if one is not None)
        return found
