"""The Prefect flow `build-ufine6926`."""

from loupe.flows.engine.prefect import build_flow
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.flows.withdrawal.execution import resume_reopened

build_ufine6926 = build_flow(
    "build-ufine6926",
    ufine6926_pipeline(),
    "Builds a UFine6926-style dataset from videos, as far as it can be done now.",
    resume_reopened,
)
