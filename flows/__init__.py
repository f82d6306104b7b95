"""Prefect flows, the stage runner, deployments and the command line."""

import os

# Prefect, vLLM and the hub's client otherwise tell their makers that they are used.
os.environ.setdefault("DO_NOT_TRACK", "1")
