"""`loupe annotator`: the annotators, each with their own Label Studio workspace."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import command, group
from flows.cli.options import QueueArgument
from flows.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from db.reviews import AnnotatorState, Role, StoredAnnotator
    from db.store import Store
    from models.profiles.settings import Settings
    from services.credentials import WorkspaceCredentials
    from services.label_studio import Workspace


app = group("Manage the people who review.")

_COLUMNS = ("name", "pseudonym", "roles", "state")

NameArgument = Annotated[str, typer.Argument(help="The name that colleagues know.")]


@command(app)
def add(
    name: NameArgument,
    *,
    adjudicator: bool = False,
    only_adjudicator: bool = False,
    token_file: Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """Create an account and a workspace for a person.

    If the person already has one, this sets a new password and adds roles. On an external Label
    Studio, Loupe cannot create accounts: the person creates one in their own organization and gives
    you its personal access token for --token-file.

    Args:
        adjudicator: Also resolves conflicts.
        only_adjudicator: Only resolves conflicts.
        token_file: File with the person's access token of an external Label Studio.
    """
    from db.reviews import add_annotator
    from services.credentials import save_workspace
    from services.label_studio import label_studio_access, label_studio_name

    settings, store = _open()
    url = label_studio_access(settings).url
    _refuse_taken_address(store, name)
    workspace = _workspace(settings, url, name, token_file)
    roles: list[Role] = [] if only_adjudicator else ["annotator"]
    if adjudicator or only_adjudicator:
        roles.append("adjudicator")
    added = add_annotator(store, name, label_studio_name(settings), workspace.user_id, roles)
    save_workspace(settings.home, added.pseudonym, workspace.credentials)
    if as_json:
        print_json(_as_json(added))
        return
    out.print(f"{name} works here as {added.pseudonym} ({', '.join(added.roles)})", markup=False)
    if workspace.credentials.password is not None:
        out.print(f"  how to log in: loupe annotator show {name!r}", markup=False)


@command(app)
def list_(*, as_json: JsonOption = False) -> None:
    """List all annotators, past and present. Releases contain only pseudonyms."""
    from db.reviews import annotators

    _, store = _open(to_read=True)
    people = annotators(store)
    if as_json:
        print_json([_as_json(person) for person in people])
    elif people:
        rows = [(one.name, one.pseudonym, ", ".join(one.roles), one.state) for one in people]
        print_table("Annotators", _COLUMNS, rows)
    else:
        out.print("no annotators yet: tasks go to the account of this installation")


@command(app)
def show(name: NameArgument, *, reveal: bool = False, as_json: JsonOption = False) -> None:
    """Show how a person logs in.

    The password is printed only on a terminal, or with --reveal.

    Args:
        reveal: Print the password even if the output is not a terminal.
    """
    from db.reviews import annotator_named
    from services.credentials import load_workspaces
    from services.label_studio import label_studio_address

    settings, store = _open()
    person = annotator_named(store, name)
    credentials = load_workspaces(settings.home).get(person.pseudonym)
    shown = reveal or (sys.stdout.isatty() and not as_json)
    login = _login(person, credentials, label_studio_address(settings), shown)
    if as_json:
        print_json(_as_json(person) | login)
        return
    for field, value in (_as_json(person) | login).items():
        shown = value if isinstance(value, str) else ", ".join(value)
        out.print(f"{field + ':':<11} {shown}", markup=False, soft_wrap=True)


@command(app)
def report(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Show a person's progress, and the gold items that they answered wrongly, with reasons.

    Use it to review the answers with the person: it shows their answer, the known one and its
    explanation.
    """
    from annotate.gold import gold_feedback
    from annotate.interfaces.registry import interface_of
    from annotate.queues import load_queues, queues_in_use
    from db.annotations import answer_counts
    from db.reviews import annotator_named

    settings, store = _open(to_read=True)
    person = annotator_named(store, name)
    found = []
    for queue in queues_in_use(store, load_queues(settings.queues_file)):
        answers = answer_counts(store, queue.name)
        if count := answers.get(person.pseudonym, 0):
            gold = gold_feedback(store, queue, interface_of(queue), person.pseudonym)
            found.append((queue.name, count, gold))
    if as_json:
        print_json(
            _as_json(person)
            | {
                "queues": [
                    {
                        "queue": queue_name,
                        "answers": count,
                        "gold": [one.model_dump(mode="json") for one in gold],
                    }
                    for queue_name, count, gold in found
                ]
            }
        )
        return
    for queue_name, count, gold in found:
        right = sum(one.correct for one in gold)
        out.print(
            f"{queue_name}: {count:,} answers, {right:,} of {len(gold):,} gold answers right",
            markup=False,
        )
        for one in gold:
            if not one.correct:
                lines = (f"answered {one.given}", f"known    {one.known}", one.explanation)
                out.print(f"  {one.entity}", markup=False)
                for line in filter(None, lines):
                    out.print(f"    {line}", markup=False, soft_wrap=True)
    if not found:
        out.print(f"{name} has not answered anything yet", markup=False)


@command(app)
def deactivate(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Stop sending tasks to a person and block their login. Their answers are kept."""
    _set_state(name, "left", as_json)


@command(app)
def reactivate(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Reactivate a person, with the same workspace and password."""
    _set_state(name, "active", as_json)


@command(app)
def pause(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Stop sending tasks to a person until they are resumed.

    The person can still log in. The next push sends their open tasks to others.
    """
    _set_pause(name, "paused", as_json)


@command(app)
def resume(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Send tasks to a paused person again."""
    _set_pause(name, "active", as_json)


def _set_pause(name: str, state: "AnnotatorState", as_json: bool) -> None:
    from db.reviews import annotator_named, set_annotator_state
    from schemas.errors import UsageError

    _, store = _open()
    if annotator_named(store, name).state == "left":
        raise UsageError(f"{name!r} is deactivated; first run: loupe annotator reactivate {name!r}")
    _show_state(set_annotator_state(store, name, state), as_json)


@command(app)
def reinstate(name: NameArgument, queue: QueueArgument, *, as_json: JsonOption = False) -> None:
    """Lift the suspension of a person from a queue.

    People are suspended for wrong answers to gold items. From now on only new gold answers count.
    Answers that were revoked stay revoked.
    """
    from db.gold import reinstate_annotator
    from db.reviews import annotator_named
    from schemas.errors import UsageError

    _, store = _open()
    person = annotator_named(store, name)
    lifted = reinstate_annotator(store, queue, person.pseudonym)
    if not lifted:
        raise UsageError(f"{person.pseudonym} is not suspended from the queue {queue!r}")
    if as_json:
        print_json(_as_json(person) | {"queue": queue, "lifted": lifted})
    else:
        out.print(f"{name} ({person.pseudonym}) works in {queue} again", markup=False)


def _set_state(name: str, state: "AnnotatorState", as_json: bool) -> None:
    """Change the account before the store, so that a failure never leaves a login active."""
    from db.reviews import annotator_named, set_annotator_state
    from services.credentials import load_workspaces
    from services.label_studio import let_in

    settings, store = _open()
    person = annotator_named(store, name)
    credentials = load_workspaces(settings.home).get(person.pseudonym)
    if credentials is not None and credentials.email is not None:
        let_in(settings, credentials.email, state == "active")
    else:
        err.print(f"{person.server} is an external Label Studio: its owner manages the account")
    _show_state(set_annotator_state(store, name, state), as_json)


def _show_state(person: "StoredAnnotator", as_json: bool) -> None:
    if as_json:
        print_json(_as_json(person))
    else:
        out.print(f"{person.name}: {person.state}", markup=False)


def _refuse_taken_address(store: "Store", name: str) -> None:
    """Refuse a name whose e-mail address belongs to another annotator, before an account exists."""
    from db.reviews import annotators
    from schemas.errors import UsageError
    from services.label_studio import address_of

    address = address_of(name)
    for person in annotators(store):
        if person.name != name and address_of(person.name) == address:
            raise UsageError(
                f"{name!r} and {person.name!r} have the same address {address}; choose another name"
            )


def _workspace(settings: "Settings", url: str, name: str, token_file: Path | None) -> "Workspace":
    from pydantic import SecretStr

    from schemas.errors import UsageError
    from services.label_studio import add_workspaces, adopt_workspace

    if not settings.label_studio_url:
        if token_file is not None:
            raise UsageError("--token-file is only for an external Label Studio; leave it out")
        return add_workspaces(settings, [name])[0]
    if token_file is None:
        raise UsageError(
            f"Loupe cannot create accounts on {url}: let {name} create one there, in an "
            "organisation of their own, and pass its personal access token with --token-file"
        )
    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"{token_file} cannot be read: {error.strerror}") from error
    return adopt_workspace(url, SecretStr(token))


def _login(
    person: "StoredAnnotator",
    credentials: "WorkspaceCredentials | None",
    address: str,
    reveal: bool,
) -> dict[str, Any]:
    if credentials is None or credentials.email is None or credentials.password is None:
        return {"login": f"the person's own account on {person.server}"}
    password = credentials.password.get_secret_value()
    return {
        "address": f"{address}/user/login/",
        "login": credentials.email,
        "password": password if reveal else "(shown on a terminal, or with --reveal)",
    }


def _as_json(person: "StoredAnnotator") -> dict[str, Any]:
    fields = ("name", "pseudonym", "roles", "state", "server")
    return {field: getattr(person, field) for field in fields}


def _open(*, to_read: bool = False) -> "tuple[Settings, Store]":
    """Open the settings and the store, which must exist if it is opened for reading."""
    from db.store import Store
    from models.profiles.settings import load_settings

    settings = load_settings()
    open_store = Store.open_existing if to_read else Store.open
    return settings, open_store(settings.database_url)
