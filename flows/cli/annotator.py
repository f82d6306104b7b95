"""`loupe annotator`: the annotators, each with their own Label Studio workspace."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import QueueArgument, opened, settings
from loupe.flows.cli.output import Answer, Table, note
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.annotate.gold import GoldFeedback
    from loupe.db.reviews import AnnotatorState, Role, StoredAnnotator
    from loupe.db.store import Store
    from loupe.models.profiles.settings import Settings
    from loupe.services.credentials import WorkspaceCredentials
    from loupe.services.label_studio import Workspace


app = group("Manage annotators and their accounts.")

NameArgument = Annotated[str, typer.Argument(help="Name of the annotator (not the pseudonym).")]


@command(app)
def add(
    name: NameArgument,
    *,
    adjudicator: bool = False,
    only_adjudicator: bool = False,
    token_file: Path | None = None,
) -> Answer:
    """Create an account and a workspace for a person.

    For an existing account, this sets a new password, adds roles and reactivates the person. On an
    external Label Studio, Loupe cannot create accounts: the person creates one in an organisation
    of their own and gives you a personal access token for --token-file.

    Args:
        adjudicator: The person also resolves conflicts.
        only_adjudicator: The person only resolves conflicts.
        token_file: File with the person's access token for an external Label Studio.
    """
    from loupe.db.reviews import add_annotator, annotators
    from loupe.db.store import Store
    from loupe.flows.engine.desks import wake_watcher
    from loupe.flows.lead_actions import log_account
    from loupe.models.profiles.settings import make_home
    from loupe.services.credentials import save_workspace
    from loupe.services.label_studio import check_name, label_studio_access, label_studio_name
    from loupe.services.public import public_site

    own = settings()
    make_home(own.home)
    store = Store.open(own.database_url, own.home)
    url = label_studio_access(own).url
    check_name(name)
    if not own.label_studio_url:
        _refuse_taken_address(store, name)
    workspace = _workspace(own, url, name, token_file)
    roles: list[Role] = [] if only_adjudicator else ["annotator"]
    if adjudicator or only_adjudicator:
        roles.append("adjudicator")
    is_known = name in {person.name for person in annotators(store)}
    added = add_annotator(store, name, label_studio_name(own), workspace.user_id, roles)
    save_workspace(own.home, added.pseudonym, workspace.credentials)
    log_account(store, added, "renewed the account of" if is_known else "added")
    wake_watcher(own)
    lines = [f"{name} works here as {added.pseudonym} ({', '.join(added.roles)})"]
    if workspace.credentials.password is not None:
        lines.append(f"  how to log in: loupe annotator show {name!r}")
        if public_site(own.home) is not None:
            lines.append(f"  or send a link that sets a password: loupe annotator invite {name!r}")
    return Answer(_as_json(added), lines)


@command(app)
def invite(name: NameArgument, *, adjudicator: bool = False, email: str | None = None) -> Answer:
    """Print a link with which a person sets their password.

    The link works once, for a week. A new person is added first. If a person forgot the password,
    the link sets a new one; the old password and earlier links stop working at once. With --email,
    the person logs in with an account at the provider that LOUPE_OIDC_ISSUER names (docs/team.md),
    and has no password here.

    Args:
        adjudicator: The person also resolves conflicts.
        email: Address of the person's account at the provider.
    """
    from loupe.db.reviews import annotators
    from loupe.flows.lead_actions import log_account
    from loupe.services.credentials import save_workspace
    from loupe.services.label_studio import invitation, label_studio_address
    from loupe.services.oidc import invite_address

    own, store = opened()
    if email is not None and not own.oidc_issuer:
        raise UsageError("--email is for logins at a provider: set LOUPE_OIDC_ISSUER, or omit it")
    if own.label_studio_url:
        raise UsageError(
            f"Loupe cannot invite people to {own.label_studio_url}: they create an account there; "
            "then run loupe annotator add NAME --token-file FILE"
        )
    is_new = name not in {person.name for person in annotators(store)}
    if is_new or adjudicator:
        add(name, adjudicator=adjudicator)
    own, store, person, credentials = _person(name)
    if person.state == "left":
        advice = f"first run: loupe annotator reactivate {name!r}"
        raise UsageError(f"{name!r} is deactivated; {advice}")
    if credentials is None or credentials.email is None:
        raise UsageError(f"{name!r} has an account on {person.server}, which Loupe does not manage")
    link = invitation(own, credentials.email)  # the present password ends
    log_account(store, person, "invited")
    known = credentials.model_copy(update={"password": None})
    save_workspace(own.home, person.pseudonym, known)
    if email is not None:
        invite_address(own.home, email, credentials.email)
        page = f"{label_studio_address(own)}/user/login/"
        said = f"{name} logs in with the account of {email} here: {page}"
        return Answer(_as_json(person) | {"email": email, "page": page}, [said])
    lines = [f"{name} sets a password here, once, within a week:", f"  {link}"]
    return Answer(_as_json(person) | {"link": link}, lines)


@command(app)
def list_() -> Answer:
    """List all annotators, past and present. Releases contain only pseudonyms."""
    from loupe.db.reviews import annotators

    _, store = opened()
    people = [_as_json(person) for person in annotators(store)]
    if not people:
        return Answer(people, ["no annotators yet: tasks go to the account of this installation"])
    shown = [person | {"roles": ", ".join(person["roles"])} for person in people]
    columns = ("name", "pseudonym", "roles", "state")
    return Answer(people, [Table.of("Annotators", columns, shown)])


@command(app)
def show(name: NameArgument, *, reveal: bool = False) -> Answer:
    """Show how a person logs in.

    The password is printed only on a terminal, or with --reveal; --json has null otherwise.

    Args:
        reveal: Print the password even if the output is not a terminal.
    """
    from loupe.services.label_studio import label_studio_address

    own, _, person, credentials = _person(name)
    shown = reveal or sys.stdout.isatty()
    login = _as_json(person) | _login(credentials, label_studio_address(own), shown)
    unknown = {
        "address": f"that of {person.server}",
        "login": "the person's own account there",
        "password": _why_unknown(name, credentials),
    }
    texts = {**login, "roles": ", ".join(person.roles)}
    lines = [f"{field + ':':<11} {text or unknown[field]}" for field, text in texts.items()]
    return Answer(login, lines)


@command(app)
def report(name: NameArgument) -> Answer:
    """Show an annotator's progress and wrong answers to gold items.

    For each wrong answer, shows the given answer, the known answer and its explanation, to discuss
    with the person.
    """
    from loupe.annotate.gold import gold_feedback
    from loupe.annotate.interfaces.registry import interface_of
    from loupe.annotate.queues import load_queues, queues_in_use
    from loupe.db.annotations import answer_counts
    from loupe.db.reviews import annotator_named

    own, store = opened()
    person = annotator_named(store, name)
    found = []
    for queue in queues_in_use(store, load_queues(own.queues_file)):
        answers = answer_counts(store, queue.name)
        if count := answers.get(person.pseudonym, 0):
            gold = gold_feedback(store, queue, interface_of(queue), person.pseudonym)
            found.append((queue.name, count, gold))
    lines = [line for one in found for line in _report_lines(*one)]
    queues = [dict(zip(("queue", "answers", "gold"), one, strict=True)) for one in found]
    document = _as_json(person) | {"queues": queues}
    return Answer(document, lines or [f"{name} has not answered anything yet"])


def _report_lines(queue: str, answers: int, gold: "list[GoldFeedback]") -> Iterator[str]:
    right = sum(one.correct for one in gold)
    yield f"{queue}: {answers:,} answers, {right:,} of {len(gold):,} gold answers right"
    for one in gold:
        if not one.correct:
            yield f"  {one.entity}"
            said = (f"answered {one.given}", f"known    {one.known}", one.explanation)
            yield from (f"    {line}" for line in said if line)


@command(app)
def deactivate(name: NameArgument) -> Answer:
    """Stop sending tasks to a person and block their login. Their answers are kept."""
    return _set_state(name, "left", may_log_in=False)


@command(app)
def reactivate(name: NameArgument) -> Answer:
    """Reactivate a person, with the same workspace and password."""
    return _set_state(name, "active", may_log_in=True)


@command(app)
def pause(name: NameArgument) -> Answer:
    """Pause a person: send no tasks until `loupe annotator resume`.

    The person can still log in. The next push sends their open tasks to others.
    """
    return _pause_or_resume(name, "paused")


@command(app)
def resume(name: NameArgument) -> Answer:
    """Send tasks to a paused person again."""
    return _pause_or_resume(name, "active")


@command(app)
def reinstate(name: NameArgument, queue: QueueArgument) -> Answer:
    """Lift the suspension of a person from a queue.

    People are suspended for wrong answers to gold items. After this, only new gold answers count.
    Answers that were revoked stay revoked.
    """
    from loupe.flows.engine.desks import wake_watcher
    from loupe.flows.lead_actions import COMMAND_LINE
    from loupe.flows.lead_actions import reinstate as reinstate_person

    own, store, person, _ = _person(name)
    lifted = reinstate_person(store, name, queue, COMMAND_LINE)
    wake_watcher(own)
    document = _as_json(person) | {"queue": queue, "lifted": lifted}
    return Answer(document, [f"{name} ({person.pseudonym}) works in {queue} again"])


def _pause_or_resume(name: str, state: "Literal['active', 'paused']") -> Answer:
    from loupe.flows.engine.desks import wake_watcher
    from loupe.flows.lead_actions import COMMAND_LINE, pause_or_resume

    own, store = opened()
    person = pause_or_resume(store, name, state, COMMAND_LINE)
    wake_watcher(own)
    return Answer(_as_json(person), [f"{person.name}: {person.state}"])


def _set_state(name: str, state: "AnnotatorState", *, may_log_in: bool) -> Answer:
    """Set the state of a person, and whether they may log in.

    The account is changed before the store, so that a failure never leaves a login active.
    """
    from loupe.flows.engine.desks import wake_watcher
    from loupe.flows.lead_actions import COMMAND_LINE, set_state
    from loupe.services.label_studio import let_in

    own, store, person, credentials = _person(name)
    if credentials is not None and credentials.email is not None:
        let_in(own, credentials.email, may_log_in)
    else:
        note(f"{person.server} is an external Label Studio: its owner manages the account")
    person = set_state(store, name, state, COMMAND_LINE)
    wake_watcher(own)
    return Answer(_as_json(person), [f"{person.name}: {person.state}"])


def _refuse_taken_address(store: "Store", name: str) -> None:
    """Refuse a name whose e-mail address belongs to another annotator, before an account exists."""
    from loupe.db.reviews import annotators
    from loupe.services.label_studio import NAME, address_of

    address = address_of(name)
    for person in annotators(store):
        is_other = person.name != name and person.server == NAME
        if is_other and address_of(person.name) == address:
            raise UsageError(
                f"{name!r} and {person.name!r} have the same address {address}; choose another name"
            )


def _workspace(own: "Settings", url: str, name: str, token_file: Path | None) -> "Workspace":
    from pydantic import SecretStr

    from loupe.annotate.backend import LabelStudioDesk
    from loupe.services.credentials import WorkspaceCredentials
    from loupe.services.label_studio import Workspace, add_workspaces

    if not own.label_studio_url:
        if token_file is not None:
            raise UsageError("--token-file is only for an external Label Studio; leave it out")
        return add_workspaces(own, [name])[0]
    if token_file is None:
        raise UsageError(
            f"Loupe cannot create accounts on {url}: ask {name} to create one there, in an "
            "organisation of their own, and pass its personal access token with --token-file"
        )
    try:
        token = SecretStr(token_file.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{token_file} cannot be read: {error}") from error
    account = LabelStudioDesk(url, token).account_number()
    return Workspace(account, WorkspaceCredentials(token=token))


def _why_unknown(name: str, credentials: "WorkspaceCredentials | None") -> str:
    """Return why a password is not shown."""
    if credentials is None or credentials.email is None:
        return "their own"
    if credentials.password is None:
        return f"set by the person; for a new one: loupe annotator invite {name!r}"
    return "(shown on a terminal, or with --reveal)"


def _login(
    credentials: "WorkspaceCredentials | None",
    address: str,
    reveal: bool,
) -> dict[str, Any]:
    """Return how a person logs in, with None for what is not ours, or not to be shown."""
    if credentials is None or credentials.email is None:
        return {"address": None, "login": None, "password": None}
    known = credentials.password if reveal else None
    return {
        "address": f"{address}/user/login/",
        "login": credentials.email,
        "password": known.get_secret_value() if known is not None else None,
    }


def _as_json(person: "StoredAnnotator") -> dict[str, Any]:
    fields = ("name", "pseudonym", "roles", "state", "server")
    return {field: getattr(person, field) for field in fields}


def _person(
    name: str,
) -> "tuple[Settings, Store, StoredAnnotator, WorkspaceCredentials | None]":
    """Return the settings, the open store, a person, and their credentials on our Label Studio."""
    from loupe.db.reviews import annotator_named
    from loupe.services.credentials import load_workspaces

    own, store = opened()
    person = annotator_named(store, name)
    return own, store, person, load_workspaces(own.home).get(person.pseudonym)
