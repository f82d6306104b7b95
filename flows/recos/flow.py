"""The Prefect flow `build-recos`."""

from loupe.flows.engine.prefect import build_flow
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.withdrawal.execution import resume_reopened

build_recos = build_flow(
    "build-recos",
    recos_pipeline(),
    "Builds a ReCoS-style benchmark of tasks, version by version, as far as it can be done now.",
    resume_reopened,
)
