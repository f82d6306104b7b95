"""`python -m loupe_studio DATABASE SOCKET NAME` serves LightlyStudio on a Unix socket.

Loupe adds the items by posting to `/loupe/load`, asks for the tags at `/loupe/tags`, and puts its
door in front (`loupe.services.explorer.door`), as LightlyStudio has no log-in.
"""

import os
import sys
from pathlib import Path

os.environ["LIGHTLY_STUDIO_ANALYTICS_ENABLED"] = "false"  # read when it is imported

import lightly_studio as studio
import uvicorn
from fastapi import APIRouter
from lightly_studio.api.app import app
from lightly_studio.database import db_manager
from lightly_studio.plugins.operator_registry import operator_registry
from pydantic import BaseModel

from loupe_studio.decisions import Decide
from loupe_studio.loading import create_dataset, load, read_tags, write_tags
from loupe_studio.search import LoupeEmbedder

DATABASE, SOCKET, NAME = sys.argv[1:]


class Load(BaseModel):
    """Items to load; `space` is None if they have no vectors."""

    items: Path
    space: str | None
    dimension: int
    searchable: bool
    tags: dict[str, list[str]] = {}


db_manager.connect(cleanup_existing=True, db_file=DATABASE)
dataset = create_dataset(NAME)
operator_registry.register(Decide())
router = APIRouter(prefix="/loupe")


@router.post("/load")
def load_items(wanted: Load) -> dict[str, int]:
    """Load items, and tags that an earlier database had."""
    load(dataset, wanted.items, wanted.space, wanted.dimension)
    if wanted.space and wanted.searchable:
        studio.register_default_embedder(LoupeEmbedder(wanted.space, wanted.dimension))
    write_tags(wanted.tags, dataset)
    return {}


@router.get("/tags")
def tags() -> dict[str, list[str]]:
    """Return the ids of the items of each tag."""
    return read_tags()


app.include_router(router)
# before the route of the page, which takes every address
own = app.router.routes.pop()
app.router.routes.insert(0, own)
# uvicorn opens the socket to everybody; its folder is closed to other users
uvicorn.run(app, uds=SOCKET, log_level="warning", access_log=False)
