"""Scoring: metrics, evaluators, and the CFAM trainer. Only `retrieval.cfam.network` loads torch."""
