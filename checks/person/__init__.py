"""The check `person`: reads English descriptions of persons by rules, without any model.

A leaf, found by its entry point: `lexicon` loads the words and finds them in a text, `parser` makes
a `description` of things and their facts, `differences` and `stray_words` compare two of them.
"""
