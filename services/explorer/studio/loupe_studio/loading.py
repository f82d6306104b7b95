"""Loads items and tags into LightlyStudio's database, and reads tags back.

Rows are inserted by DuckDB itself, straight from a Parquet file: one at a time, a hundred thousand
images with their captions would take an hour. The ids of Loupe are the ids of samples, as both have
128 bits.
"""

from pathlib import Path
from string import Template
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

_BLOCKS = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- commit")
_TAGGED = """
INSERT OR IGNORE INTO sampletaglinktable (sample_id, tag_id)
SELECT sample_id, ? FROM sample WHERE list_contains(?, sample_id)
"""


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
    nothing = UUID(int=0)  # no item has a vector then
    names = {
        "items": str(items).replace("'", "''"),
        "images": str(dataset.collection_id),
        "texts": str(texts),
        "model": str(model or nothing),
    }
    for block in _BLOCKS:
        with db_manager.session() as session:
            session.connection().exec_driver_sql(Template(block).substitute(names))


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
    return UUID(str(model.embedding_model_id))


def write_tags(tags: dict[str, list[str]], dataset: ImageDataset) -> None:
    """Create tags with the items that are still there."""
    with db_manager.session() as session:
        for name, ids in tags.items():
            tag = tag_resolver.get_or_create_sample_tag_by_name(
                session=session, collection_id=dataset.collection_id, tag_name=name
            )
            known = [UUID(one) for one in ids]
            session.connection().exec_driver_sql(_TAGGED, (tag.tag_id, known))


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
