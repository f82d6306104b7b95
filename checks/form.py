"""What a caption may consist of: characters, words and sentences of its language, and no more.

A text is described by what belongs to it. A rule finds the first thing that does not. Words in
quotation marks are shown in the image and may be anything.
"""

from collections.abc import Callable, Sequence
from functools import cache

from loupe.checks.prose import (
    begins_and_ends,
    goes_on_after_commas,
    has_small_letters,
    has_words,
    is_in_language,
    is_in_third_person,
    says_it_once,
    states,
)
from loupe.checks.signs import (
    belongs_to_language,
    characters_print,
    has_no_labels,
    is_balanced,
    is_decoded,
    is_no_list,
    is_not_a_quotation,
    is_not_wrapped,
    is_paragraph,
    is_spaced,
    says_something,
)
from loupe.checks.text import PROSE, Defect, Form, Text

_Rule = Callable[[Text], Defect | None]
_OF_CHARACTERS: tuple[_Rule, ...] = (
    characters_print,
    is_decoded,
    is_paragraph,
    is_not_wrapped,
    says_something,
    belongs_to_language,
)
_OF_PROSE: tuple[_Rule, ...] = (
    is_spaced,
    is_balanced,
    is_not_a_quotation,
    has_words,
    is_no_list,
    has_small_letters,
    says_it_once,
    is_in_language,
    begins_and_ends,
    # doubtful defects come last
    has_no_labels,
    goes_on_after_commas,
    states,
    is_in_third_person,
)
_ALSO_OF_SIGNS: frozenset[_Rule] = frozenset(
    (
        characters_print,
        is_decoded,
        is_not_wrapped,
        says_something,
        belongs_to_language,
        says_it_once,
    )
)
"""The rules of texts that may state programs, sums and signs."""


@cache
def _rules_of(form: Form) -> Sequence[_Rule]:
    rules = _OF_CHARACTERS if form.is_shown else (*_OF_CHARACTERS, *_OF_PROSE)
    return [rule for rule in rules if not form.shows_signs or rule in _ALSO_OF_SIGNS]


def form_defect(text: str, form: Form = PROSE, like: str = "") -> Defect | None:
    """Return the first thing in `text` that does not belong to a caption, or None.

    Args:
        text: a text as it was written.
        form: what is asked of it.
        like: a text that counts as right, such as the source of a rewrite: what it does (no final
            stop, a word in capitals) the text may do as well.
    """
    if not text.strip():
        return Defect("empty", "holds no text")
    seen = Text(text, form, like)
    for rule in _rules_of(form):
        if (defect := rule(seen)) is not None:
            return defect
    return None
