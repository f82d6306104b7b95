"""`loupe lineage`: where an entity came from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json, warn
from flows.cli.release_opening import notices_at_hand

if TYPE_CHECKING:
    from db.lineage import Lineage


def lineage(
    entity_id: Annotated[
        str,
        typer.Argument(
            help="The entity's id, or its first six digits; with --release also the number of a "
            "row, or the file name of its image."
        ),
    ],
    release: Annotated[
        Path | None,
        typer.Option(
            help="The folder of a release, which is asked in the place of the store: it tells of "
            "all that stands in it, and of what that was made from."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show where an entity came from: sources, prompts, models and people, back to the files.

    With --json: the W3C PROV graph as PROV-JSON.
    """
    from db.lineage import prov_json
    from flows.cli.lineage_tree import lineage_tree

    captions: dict[str, str] = {}
    if release is None:
        traced = _stored(entity_id)
    else:
        traced, captions = _released(release, entity_id)
    if as_json:
        print_json(prov_json(traced))
        return
    out.print(lineage_tree(traced), no_wrap=True, overflow="ellipsis")
    if captions:
        _show_captions(captions, release)


def _stored(entity_id: str) -> "Lineage":
    from db.lineage import find_entity_id, trace
    from db.store import Store
    from profiles.settings import load_settings

    store = Store.open(load_settings().database_url)
    try:
        return trace(store, find_entity_id(store, entity_id))
    finally:
        store.close()


def _released(folder: Path, name: str) -> tuple["Lineage", dict[str, str]]:
    """What is called `name`; and where it is a row, the captions that stand beside its image.

    Of what was withdrawn no words are told.
    """
    from flows.withdrawal.withdrawn import withdrawal_in, withdrawn_in, without_withdrawn
    from release.lineage_reading import open_lineage

    known = notices_at_hand()
    if withdrawal := withdrawal_in(folder, known):
        warn(withdrawal.sentence)
    with open_lineage(folder) as released:
        traced, captions = released.trace(released.find(name)), released.captions_of(name)
    return without_withdrawn(traced, captions, withdrawn_in(folder, known))


def _show_captions(captions: dict[str, str], release: Path | None) -> None:
    """Each by the id that its own lineage is asked for with."""
    from release.lineage_reading import printable

    asked = f"loupe lineage ID --release {release}"
    out.print(escape(f"captions of this image, each with a lineage of its own ({asked}):"))
    for caption_id, text in captions.items():
        told = escape(printable(text))
        out.print(f"  [bold]{caption_id[:12]}[/bold] {told}", no_wrap=True, overflow="ellipsis")
