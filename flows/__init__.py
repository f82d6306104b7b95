"""Prefect flows, the stage runner, deployments and the command line."""
