"""Reads what an English description states of a person.

A description is read once, from left to right, mention by mention (`mentions`: the words and
phrases that the lexicon knows, longest first). The reader (`reader`) gives each mention to the
function that takes words of its meaning; these share one state (`reading`). In the order in which
a noun phrase meets them:

1. `noun_phrases`: articles begin a noun phrase; modifiers are kept until it ends; a comma or
   conjunction joins modifiers or ends them.
2. Heads end it. `items` finds out with `references` which item the noun means (a new one, one
   named before, the subject by a closer name), `parts` what a collar or sole belongs to, `people`
   whether «a woman» is the person, a companion or a picture.
3. `attributes` states the modifiers kept so far of what the head names: facts, each with its span.
4. `predicates`: where no head comes, they are said of the subject («the hat is black»), the thing
   before («a jacket in blue») or the person («of medium build»).
5. `postmodifiers` and `sides` add what stands after the noun, or fronted: «with long sleeves»,
   «reaches his hips», «in her left hand».
6. `clauses`: verbs, «with», «it» and full stops decide what the next words will be said of.
"""

from models.builtin.person.parser.reader import extract_facts, parse_description

__all__ = ["extract_facts", "parse_description"]
