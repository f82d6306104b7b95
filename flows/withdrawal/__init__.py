"""Withdrawals: plan, execution, and what is already withdrawn."""
