"""The Prefect flow `build-ufine3c`."""

from loupe.flows.engine.prefect import build_flow
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.flows.withdrawal.execution import resume_reopened

build_ufine3c = build_flow(
    "build-ufine3c",
    ufine3c_pipeline(),
    "Builds a UFine3C-style evaluation set, as far as it can be done now.",
    resume_reopened,
)
