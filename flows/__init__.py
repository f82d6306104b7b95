"""Prefect flows, the stage runner, deployments and the command line."""

import os

# Disable the usage reports that Prefect, vLLM and the Hub's client otherwise send.
os.environ.setdefault("DO_NOT_TRACK", "1")
