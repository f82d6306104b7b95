"""Read and write English descriptions of persons, by rules and without any model.

Reading: `lexicon` loads the words and finds them in a text, and `parser` makes a `description` of
things and their facts. Writing: `composer` makes noun phrases of things, and sentences of those.
"""
