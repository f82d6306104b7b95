"""Scoring: metrics, evaluators, and the CFAM trainer. Only `cfam.network` loads torch."""
