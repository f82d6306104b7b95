"""All families of programs, and draws from them."""

from collections.abc import Collection

from sources.demonstration.chance import Chance
from sources.rendered import program_collections, program_numbers
from sources.rendered.programs import Family, Program

FAMILIES: tuple[Family, ...] = (
    program_numbers.range_sum,
    program_numbers.count_if,
    program_numbers.while_halving,
    program_numbers.while_growth,
    program_numbers.recursive_sum,
    program_numbers.recursive_pair,
    program_numbers.nested_loops,
    program_numbers.euclid,
    program_numbers.grades,
    program_collections.slices,
    program_collections.word_slice,
    program_collections.comprehension,
    program_collections.vowels,
    program_collections.dictionary_sum,
    program_collections.dictionary_count,
    program_collections.list_changes,
    program_collections.join_words,
    program_collections.best_index,
)
_OTHER_LANGUAGES = ("javascript", "perl", "ruby", "bash")


def draw_program(chance: Chance, languages: Collection[str]) -> Program:
    """A program of any family: in about half of the draws in another language than Python.

    Where that language is not among `languages`, or the family does not know it, it is in Python:
    so what is drawn in Python on a machine with few interpreters is the same on one with many.
    """
    sketched = chance.pick(FAMILIES)(chance)
    wanted = chance.pick(_OTHER_LANGUAGES) if chance.happens(0.6) else "python"
    return sketched.program(wanted if wanted in languages else "python")
