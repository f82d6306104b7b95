"""The Prefect flow `build-ccd`."""

from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.engine.prefect import build_flow
from loupe.flows.withdrawal.execution import resume_reopened

build_ccd = build_flow(
    "build-ccd",
    ccd_pipeline(),
    "Builds a CCD-style benchmark of contrastive images, as far as it can be done now.",
    resume_reopened,
)
