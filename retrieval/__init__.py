"""Scoring: metrics, evaluators, and the CFAM trainer. Only `loupe.retrieval.cfam.network` loads
torch.
"""
