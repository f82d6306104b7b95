"""Withdrawals: plan, execution, and what is withdrawn already."""
