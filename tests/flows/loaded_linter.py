"""Loads the grammar checker when imported, so that forked processes do not load it again."""

from loupe.checks.grammar import check_grammar

check_grammar("A man walks.")
