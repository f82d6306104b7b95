"""Checks the grammar and the spelling of English captions, offline, with Harper.

`check` is what stages call. `language` says first whether a text is English at all, `agreement` has
rules that Harper lacks, in its own rule language.
"""
