"""`loupe lineage`: the provenance of an entity."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from loupe.flows.cli.options import notices_at_hand, opened_store
from loupe.flows.cli.output import Answer, Line, warn
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.db.lineage import Lineage


def lineage(entity_id: str, *, release: Path | None = None) -> Answer:
    """Show the provenance of an entity.

    Lists the models, prompts, people and source files it was made from. With --json, prints
    the W3C PROV graph as PROV-JSON.

    Args:
        entity_id: Entity id, or at least its first 6 digits; with --release also a row number or
            the file name of an image.
        release: Read the lineage from this release folder instead of the store.
    """
    from loupe.db.lineage import find_entity_id, prov_json, trace
    from loupe.release.lineage.tree import lineage_tree

    lines: list[Line] = []
    if release is None:
        with opened_store() as store:
            try:
                found = find_entity_id(store, entity_id)
            except UsageError as error:
                if Path(entity_id).suffix:
                    hint = "for a file of a release, add --release FOLDER"
                    raise UsageError(f"{error}; {hint}") from error
                raise
            traced = trace(store, found)
    else:
        traced, captions = _released(release, entity_id)
        if captions:
            asked = f"loupe lineage ID --release {release}"
            lines.append(f"captions of this image (trace one with {asked}):")
        lines += [_caption_line(*one) for one in captions.items()]
    return Answer(prov_json(traced), [lineage_tree(traced), *lines])


def _released(folder: Path, name: str) -> tuple["Lineage", dict[str, str]]:
    """Return the lineage of `name`; for a row, also the captions of its image.

    The texts of withdrawn items are left out.
    """
    from loupe.flows.withdrawal.releases import withdrawal_in, without_withdrawn
    from loupe.release.lineage.reading import open_lineage

    if withdrawal := withdrawal_in(folder, notices_at_hand()):
        warn(withdrawal.sentence)
    with open_lineage(folder) as released:
        traced, captions = released.trace_named(name), released.captions_of(name)
    return without_withdrawn(traced, captions, withdrawal.affected if withdrawal else ())


def _caption_line(caption_id: str, text: str) -> Text:
    """Return a caption with the id that `loupe lineage` accepts, cut at the width of the output."""
    from loupe.release.lineage.summaries import printable

    return Text(f"  {caption_id[:12]} {printable(text)}", no_wrap=True, overflow="ellipsis")
