"""`loupe explore`, which shows images and takes decisions on them, and `loupe similar`."""

import re
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.options import (
    ProfileOption,
    chosen_profile,
    opened,
    opened_run,
    require_dataset,
    settings,
)
from loupe.flows.cli.output import Answer, Line, Table, asked, note, silence
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.flows.engine.context import RunContext
    from loupe.flows.exploring.deciding import Wanted
    from loupe.flows.exploring.items import Items

_PORT = 8095
_DIGITS = re.compile(r"[0-9a-f]{6,}")  # of the id of a release


def explore(
    name: Annotated[str, typer.Argument(metavar="DATASET|RELEASE")],
    *,
    filter_: list[str] | None = None,
    apply: list[str] | None = None,
    reason: str = "",
    ground: str = "",
    caption: str = "",
    yes: bool = False,
    port: Annotated[int, typer.Option(min=1, max=65535)] = _PORT,
    browser: bool = True,
) -> Answer:
    """Browse and decide on the images of a dataset or release.

    Serves a page with a grid, filters, a map of the embeddings and search, until Ctrl+C. Reload
    the page to see what is new in a dataset. Images are not copied; the database of the page is
    built again each time, and tags are kept.

    Args:
        name: A dataset in the store; or a release: its folder, DATASET@VERSION, or the first digits
            of its id.
        filter_: Only images with this field, such as state=accepted or similarity<0.3; repeatable.
        apply: Decide on the images that the page gave a tag, instead of opening it: TAG=ACTION,
            where the action is reject, reopen, withdraw, "send to QUEUE" or "gold QUEUE".
        reason: With --apply: why, in your words; stored with each decision.
        ground: With --apply TAG=withdraw: privacy, copyright, law, consent, quality or other.
        caption: With --apply TAG=reject or TAG=reopen: only captions with these words, not their
            images.
        yes: With --apply: do not ask for confirmation.
        port: Port of the page.
        browser: Open the page in the browser.
    """
    if apply:
        if filter_:
            raise UsageError("--filter cannot be combined with --apply: a tag names the images")
        return _applied(name, apply, reason, ground, caption, yes=yes)
    if reason or ground or caption or yes:
        raise UsageError("--reason, --ground, --caption and --yes go with --apply TAG=ACTION")
    return _explored(name, filter_ or [], port, open_browser=browser)


def _explored(name: str, filters: list[str], port: int, *, open_browser: bool) -> Answer:
    """Serve the page until it is interrupted."""
    from loupe.flows.exploring.deciding import answer_form
    from loupe.flows.exploring.items import Filter
    from loupe.flows.exploring.session import Session, folder_of
    from loupe.release.lineage.tree import lineage_tree
    from loupe.services.environments import ensure_environment, is_installed
    from loupe.services.explorer import studio
    from loupe.services.explorer.door import Keys, create_door, serve, to_socket
    from loupe.services.process import require_free_port

    conditions = [Filter.parsed(one) for one in filters]
    require_free_port(port, "--port")
    with _opened(name) as (context, items):
        root = context.settings.environments
        if not is_installed("lightly-studio", root):
            note(f"installing LightlyStudio once in {root} (0.8 GB, and torch if uv lacks it)")
        environment = ensure_environment("lightly-studio", root)
        session = Session(context, items, conditions, lineage_tree, answer_form)
        folder = folder_of(context.settings.home, items.name)
        with studio(environment, folder, items.name, port) as running:
            shown = session.write()
            note(f"loading {shown:,} images")
            running.wait_until_ready()
            session.open(running)
            keys = Keys(port, running.key)
            door = create_door(session, keys, to_socket(running.socket), port)

            def announce() -> None:
                address = f"http://127.0.0.1:{port}"
                note(f"{shown:,} images at {address}/loupe/login?ticket={keys.ticket()}")
                note(f"The address works once. Later, at {address}, the key is: {keys.key}")
                note("Stop with Ctrl+C.")
                if open_browser:
                    _open(folder, f"{address}/loupe/login?ticket={keys.ticket()}")

            with silence():
                serve(door, port, announce)
    return Answer({"explored": items.name, "images": shown}, [f"{items.name} is closed"])


def _open(folder: Path, address: str) -> None:
    """Open a private file that leads to the address: others could read the address of a process."""
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">', encoding="utf-8"
    )
    with suppress(webbrowser.Error):
        webbrowser.open(page.as_uri())


@contextmanager
def _opened(name: str) -> "Iterator[tuple[RunContext, Items]]":
    """Open the dataset or release of that name, with the store of this installation.

    Raises:
        UsageError: there is none.
    """
    from loupe.db.entities import datasets_of
    from loupe.db.releases import find_release
    from loupe.db.store import is_there
    from loupe.flows.exploring.items import ReleaseItems, StoreItems
    from loupe.flows.withdrawal.releases import known_notices
    from loupe.release.format.manifest import release_folder
    from loupe.schemas.validation import nearest_hint

    if not Path(name).is_dir() and not is_there(settings().database_url):
        raise UsageError(f"{name} is not the folder of a release, and there is no store here yet")
    context = opened_run()
    try:
        known = datasets_of(context.store)
        if name in known:
            yield context, StoreItems(context.store, context.blobs, name)
        elif (folder := release_folder(name)) is not None:
            yield context, ReleaseItems(folder, known_notices(context.settings, context.store))
        elif "@" in name or _DIGITS.fullmatch(name):
            found = find_release(context.store, name).existing_folder()
            yield context, ReleaseItems(found, known_notices(context.settings, context.store))
        else:
            raise UsageError(f"there is no dataset {name!r}; {nearest_hint(name, known)}")
    finally:
        context.store.close()


def _applied(
    name: str, tags: list[str], reason: str, ground: str, caption: str, *, yes: bool
) -> Answer:
    """Turn tags into decisions, each confirmed."""
    from loupe.flows.exploring.deciding import Wanted
    from loupe.flows.exploring.session import stored_tags
    from loupe.schemas.validation import nearest_hint

    done: list[str] = []
    with _opened(name) as (context, items):
        known = stored_tags(context.settings.home, items.name)
        for one in tags:
            tag, found, action = one.partition("=")
            if not found:
                raise UsageError(f"--apply takes TAG=ACTION, such as blurred=reject; got {one!r}")
            if not known:
                raise UsageError(
                    f"{items.name} has no tags yet; set them in the explorer, or name images: "
                    f"loupe reject {items.name} IMAGE"
                )
            if tag not in known:
                raise UsageError(
                    f"nothing of {items.name} has the tag {tag!r}; {nearest_hint(tag, known)}"
                )
            wanted = Wanted(
                action=action.strip(),
                reason=reason,
                ground=ground,
                caption=caption,
                items=tuple(known[tag]),
            )
            done.append(_decided(context, wanted, tag, yes=yes))
    return Answer({"decided": done}, done)


def _decided(context: "RunContext", wanted: "Wanted", name: str, *, yes: bool) -> str:
    """Make a decision that is confirmed, and return what was done."""
    from loupe.flows.exploring.deciding import plan_decision

    plan = plan_decision(context, wanted)
    note(f"{name}: {plan.sentence}")
    if not yes:
        _confirm(plan.phrase)
    return plan.carry_out()


def reject(
    dataset: str,
    images: list[str],
    *,
    reason: str,
    caption: str = "",
    undo: bool = False,
    yes: bool = False,
) -> Answer:
    """Reject images of a dataset, or single captions of them; the next run leaves them out.

    What the explorer does for images with a tag. Built releases do not change.

    Args:
        dataset: A dataset in the store.
        images: The images, by file name or by the first digits of their ids.
        reason: Why, in your words; stored with the decision.
        caption: Only captions of these images with these words, not the images.
        undo: Reopen what was rejected.
        yes: Do not ask for confirmation.
    """
    from loupe.flows.exploring.deciding import Wanted, images_called

    context = opened_run()
    try:
        require_dataset(context.store, dataset)
        wanted = Wanted(
            action="reopen" if undo else "reject",
            reason=reason,
            caption=caption,
            items=images_called(context.store, dataset, images),
        )
        done = _decided(context, wanted, dataset, yes=yes)
    finally:
        context.store.close()
    return Answer({"decided": [done]}, [done])


def _confirm(phrase: str) -> None:
    """Let a person type what confirms a plan.

    Raises:
        UsageError: something else was typed, or there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to confirm it, so nothing was decided; add --yes")
    if asked(f"Type {phrase!r} to confirm, anything else to cancel") != phrase:
        raise UsageError("it was not confirmed; nothing was decided")


def similar(
    query: Annotated[str, typer.Argument(metavar="IMAGE|TEXT")],
    *,
    dataset: list[str] | None = None,
    count: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    profile: ProfileOption = None,
) -> Answer:
    """Find the images nearest to an image or a text.

    Compares the embeddings in the store.

    Args:
        query: An image file, the id of an image in the store, or a text.
        dataset: Only images of this dataset; repeatable (default: all, each image once).
        count: How many images.
    """
    from loupe.db.entities import LIVE
    from loupe.flows.exploring.similar import similar_images

    _, store = opened()
    found = similar_images(store, chosen_profile(profile), query, dataset or [], count)
    columns = ("similarity", "image", "dataset", "name", "state")
    rows = []
    for one in found:
        state = "in use" if one.state in LIVE else one.state  # images of sources stay proposed
        rows.append((f"{one.similarity:.3f}", one.id, one.dataset, one.name, state))
    lines: list[Line] = [Table("", columns, rows)] if rows else ["no images"]
    return Answer([one._asdict() for one in found], lines)
