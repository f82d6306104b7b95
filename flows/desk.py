"""The workspaces in which this installation's annotators work, and where they see images."""

from collections.abc import Callable

from annotate.desk import ReviewDesk
from annotate.label_studio import LabelStudioDesk
from annotate.queues import HOUSE
from db.annotators import annotators
from db.store import Store
from profiles.settings import Settings
from schemas.errors import ServiceError
from services.blob_server import blob_server_url
from services.credentials import load_workspaces, workspaces_path
from services.label_studio import label_studio_access, label_studio_name


def open_desk(settings: Settings) -> LabelStudioDesk:
    """The workspace of the installation itself, where no annotator was added.

    Raises:
        ServiceError: Label Studio does not answer, or there is no token for it.
    """
    access = label_studio_access(settings)
    return LabelStudioDesk(access.url, access.token, server_name=label_studio_name(settings))


def open_desks(settings: Settings, store: Store) -> Callable[[str], ReviewDesk]:
    """Gives the workspace of an assignee by pseudonym; each is opened when it is first asked for.

    What is given raises `ServiceError` for an assignee whose credentials are not in this
    installation, and where Label Studio does not answer.
    """
    opened: dict[str, ReviewDesk] = {}

    def desk_of(assignee: str) -> ReviewDesk:
        if assignee not in opened:
            opened[assignee] = (
                open_desk(settings) if assignee == HOUSE else _open(settings, store, assignee)
            )
        return opened[assignee]

    return desk_of


def images_url(settings: Settings) -> str:
    """Where the annotator's browser finds images: at our running server, else where it would be."""
    server = blob_server_url(settings.home)
    return f"{server}/blobs" if server else settings.images_url


def _open(settings: Settings, store: Store, pseudonym: str) -> LabelStudioDesk:
    credentials = load_workspaces(settings.home).get(pseudonym)
    if credentials is None:
        names = [person.name for person in annotators(store) if person.pseudonym == pseudonym]
        advice = (
            f"add the person again: loupe annotator add {names[0]!r}" if names else "restore it"
        )
        raise ServiceError(
            f"there is no token for the workspace of {pseudonym} in "
            f"{workspaces_path(settings.home)}; {advice}"
        )
    url, name = label_studio_access(settings).url, label_studio_name(settings)
    return LabelStudioDesk(url, credentials.token, server_name=name)
