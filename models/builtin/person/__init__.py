"""Reads and words English descriptions of persons, by rules and without any model.

Reading: `lexicon_file` loads the words (`lexicon`), `mentions` cuts a text into them, and `parser`
makes a `description` of things and their facts. Wording: `phrasing` makes noun phrases of things,
`composer` makes sentences of those.
"""
