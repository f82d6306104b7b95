"""Pull answers from Label Studio and push tasks while `loupe up` runs."""

import os
import sys

from models.profiles.settings import Settings
from services.blob_server import without_keys
from services.process import LOOPBACK, RunningService, ServiceSpec, answers, free_port, start

NAME = "queue-watcher"
EVERY_SECONDS = 15
_START_SECONDS = 120.0


def start_queue_watcher(settings: Settings) -> RunningService:
    """Start `loupe queue watch` as a detached process; its loopback port is for webhooks.

    Raises:
        ServiceError: it could not be started.
    """
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    token = settings.label_studio_token
    access = {"LOUPE_LABEL_STUDIO_TOKEN": token.get_secret_value()} if token is not None else {}
    options = ("--every", str(EVERY_SECONDS), "--hints-port", str(port))
    spec = ServiceSpec(
        name=NAME,
        command=(sys.executable, "-m", "flows.cli", "queue", "watch", *options),
        working_directory=settings.home,
        environment={**without_keys(os.environ), **settings.environment(keys=False), **access},
        url=url,
        port=port,
        timeout_seconds=_START_SECONDS,
    )
    return start(settings.home, spec, lambda: answers(f"{url}/health"))
