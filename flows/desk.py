"""The Label Studio that this installation's annotators work in."""

from annotate.label_studio import LabelStudioDesk
from profiles.settings import Settings
from schemas.errors import ConfigurationError
from services.credentials import credentials_path, load_credentials


def open_desk(settings: Settings) -> LabelStudioDesk:
    """The desk that the settings name, or the Label Studio that `loupe up` started.

    Raises:
        ConfigurationError: there is no token for it.
        ServiceError: it does not answer.
    """
    url = settings.label_studio_url or f"http://127.0.0.1:{settings.label_studio_port}"
    token = settings.label_studio_token
    if token is None and not settings.label_studio_url and credentials_path(settings.home).exists():
        token = load_credentials(settings.home).label_studio_token
    if token is None:
        raise ConfigurationError(
            "items wait for people, but there is no token for a Label Studio: start ours with "
            "'loupe up', or set LOUPE_LABEL_STUDIO_URL and LOUPE_LABEL_STUDIO_TOKEN"
        )
    return LabelStudioDesk(url, token)
