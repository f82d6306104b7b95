"""A flow run in a process: `python -P -m loupe.flows.prefect_run ENTRYPOINT FOLDER`.

Prefect's own engine runs the pull steps of the deployment, and imports the flow with the working
folder first on `sys.path`. This one imports an installed flow, and enters FOLDER afterwards:
Prefect also takes settings, which can name code, from files of the folder that it is started in.
"""

import os
import sys
from pkgutil import resolve_name
from uuid import UUID

from prefect._internal.control_listener import configure_from_env
from prefect.engine import handle_engine_signals
from prefect.flow_engine import load_flow_run, run_flow
from prefect.logging.loggers import flow_run_logger


def main() -> None:
    """Run the flow run of `PREFECT__FLOW_RUN_ID`."""
    entrypoint, folder = sys.argv[1:]
    run_id = UUID(os.environ["PREFECT__FLOW_RUN_ID"])
    configure_from_env()  # how the worker announces that it cancels the run
    with handle_engine_signals(run_id):
        flow_run = load_flow_run(run_id)
        flow = resolve_name(entrypoint)
        os.chdir(folder)
        logger = flow_run_logger(flow_run)
        run_flow(flow, flow_run=flow_run, error_logger=logger)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
