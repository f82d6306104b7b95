"""Servers and models that tests run against: real where possible, on loopback only."""
