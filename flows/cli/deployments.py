"""Runs of deployments on a Prefect server, followed from the command line."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.sorting import LogSort
from prefect.deployments import run_deployment as start_deployment
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling

from loupe.flows.cli.output import note
from loupe.schemas.errors import LoupeError, ServiceError
from loupe.services.prefect_server import prefect_auth_string

_POLL_SECONDS = 1.0
_LOG_PAGE = 200


def run_deployment(name: str, parameters: dict[str, Any], home: Path, api_url: str) -> str:
    """Run the deployment `flow/deployment` on the server of `home`, and print its log.

    Call it in a folder whose files are ours: Prefect takes settings from them.

    Returns:
        The result in a sentence.

    Raises:
        ServiceError: there is no such deployment on the server, or the server ended.
        LoupeError: the run failed, with the message of the run.
    """
    server = {PREFECT_API_URL: api_url, PREFECT_API_AUTH_STRING: prefect_auth_string(home)}
    with temporary_settings(server), get_client(sync_client=True) as client:
        try:
            run = start_deployment(name, parameters=parameters, timeout=0)
        except Exception as error:
            raise ServiceError(f"{name} could not be started on {api_url}: {error}") from error
        run_id: UUID = run.id  # type: ignore[union-attr]
        try:
            return _follow(client, run_id)
        except (KeyboardInterrupt, SystemExit):
            _cancel(client, run_id)
            raise


def _cancel(client: SyncPrefectClient, run_id: UUID) -> None:
    """Cancel the run on the server, and follow it until paid calls are stored.

    Raises:
        ServiceError: the server ended.
    """
    try:
        client.set_flow_run_state(run_id, Cancelling())
    except httpx.HTTPError as error:
        raise _gone(error) from error
    note(
        "stopping: the run on the server is cancelled and stores its paid answers; "
        "press Ctrl+C again to stop waiting"
    )
    with suppress(LoupeError):  # reports that it was cancelled
        _follow(client, run_id)


def _gone(error: httpx.HTTPError) -> ServiceError:
    return ServiceError(
        f"the Prefect server does not answer any more ({error}); start it with: loupe up"
    )


def _follow(client: SyncPrefectClient, run_id: UUID) -> str:
    shown = 0
    while True:
        try:
            run = client.read_flow_run(run_id)
            logs = client.read_logs(
                LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])),
                limit=_LOG_PAGE,
                offset=shown,
                sort=LogSort.TIMESTAMP_ASC,
            )
        except httpx.HTTPError as error:
            raise _gone(error) from error
        for log in logs:
            note(f"{log.timestamp:%H:%M:%S} {log.message}")
        shown += len(logs)
        ended = run.state is not None and (run.state.is_final() or run.state.is_paused())
        if run.state is not None and ended and len(logs) < _LOG_PAGE:
            break
        time.sleep(_POLL_SECONDS)
    message = run.state.message or run.state.name or ""
    if not (run.state.is_completed() or run.state.is_paused()):
        raise LoupeError(message)
    return message
