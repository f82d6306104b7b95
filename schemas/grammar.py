"""Findings and settings of a grammar check."""

from pydantic import Field

from schemas.base import Record


class GrammarFinding(Record):
    """An error in a text.

    Attributes:
        rule: the name of the rule, a stable word.
        category: the kind of error: `Spelling`, `Agreement`, `Repetition` …
        message: a sentence for users.
        start: where the error begins, in characters.
        end: where it ends, the end excluded.
        text: the text with the error.
        suggestions: replacements, the best first; an empty one removes the text.
    """

    rule: str
    category: str
    message: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text: str
    suggestions: tuple[str, ...] = ()


class GrammarSettings(Record):
    """Settings for checking captions.

    The defaults exclude rules that report errors in correct captions: rules of style, of one
    variety of English, and of technical prose ("front end" is a compound there). Captions need not
    begin with a capital, because many published ones do not.

    Attributes:
        ignored_categories: kinds of errors that are not reported.
        ignored_rules: rules that are not reported.
        words: correct words in addition to those of the dictionary; case matters.
        names: whether capitalized words inside a sentence count as names instead of misspellings.
        quotes: whether text in quotation marks is not checked.
        code: whether calls, file names and formulas are not checked: `range(9)`, `i * 4`.
    """

    ignored_categories: tuple[str, ...] = (
        "Enhancement",
        "Formatting",
        "Readability",
        "Regionalism",
        "Style",
    )
    ignored_rules: tuple[str, ...] = (
        "CompoundNouns",
        "LeftRightHand",
        "MissingPreposition",
        "SentenceCapitalization",
    )
    words: tuple[str, ...] = ("blouson", "decker", "DSLR", "elif", "halfpipe", "jetliner")
    names: bool = True
    quotes: bool = True
    code: bool = True
