"""Load the grammar checker on import, which takes longer than most runs: for `FORKED`."""

from flows.grammar import check_grammar

check_grammar("A man walks.")
