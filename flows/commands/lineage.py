"""`loupe lineage`: where an entity came from."""

from typing import Annotated

import typer

from flows.commands.output import JsonOption, out, print_json


def lineage(
    entity_id: Annotated[str, typer.Argument(help="The entity's id, or its first six digits.")],
    as_json: JsonOption = False,
) -> None:
    """Show where an entity came from: sources, prompts, models and people, back to the files.

    With --json: the W3C PROV graph as PROV-JSON.
    """
    from db.lineage import find_entity_id, trace
    from db.prov_document import prov_json
    from db.store import Store
    from flows.commands.lineage_tree import lineage_tree
    from profiles.settings import load_settings

    store = Store.open(load_settings().database_url)
    traced = trace(store, find_entity_id(store, entity_id))
    if as_json:
        print_json(prov_json(traced))
    else:
        out.print(lineage_tree(traced), no_wrap=True, overflow="ellipsis")
