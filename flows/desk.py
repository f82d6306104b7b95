"""The Label Studio that this installation's annotators work in, and where they see images."""

from annotate.label_studio import LabelStudioDesk
from profiles.settings import Settings
from services.blob_server import blob_server_url
from services.label_studio import label_studio_access


def open_desk(settings: Settings) -> LabelStudioDesk:
    """The desk that the settings name, or the Label Studio that `loupe up` started.

    Raises:
        ServiceError: it does not answer, or there is no token for it.
    """
    return LabelStudioDesk(*label_studio_access(settings))


def images_url(settings: Settings) -> str:
    """Where the annotator's browser finds images: at our running server, else where it would be."""
    server = blob_server_url(settings.home)
    return f"{server}/blobs" if server else settings.images_url
