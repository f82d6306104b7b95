"""Every kind of entity is explained in docs/provenance.md."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from loupe import schemas
from loupe.schemas.base import EntityRecord

PAGE = Path(__file__).parents[2] / "docs" / "provenance.md"


def kinds_of(record: type[EntityRecord]) -> Iterator[str]:
    """Yield the kinds of all records below `record`."""
    for one in record.__subclasses__():
        if one.__module__.startswith("loupe.schemas."):
            yield one.kind
        yield from kinds_of(one)


def test_every_kind_is_explained_once() -> None:
    for module in pkgutil.walk_packages(schemas.__path__, "loupe.schemas."):
        importlib.import_module(module.name)
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(explained) == sorted(set(kinds_of(EntityRecord)))
