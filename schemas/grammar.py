"""What a grammar check says of a text, and what it leaves unsaid."""

from pydantic import Field

from schemas.base import Record


class GrammarFinding(Record):
    """Something that is wrong with a text.

    Attributes:
        rule: the name of the rule, a stable word.
        category: what kind of fault it is: `Spelling`, `Agreement`, `Repetition` …
        message: a sentence for people.
        start: where the fault begins, in characters.
        end: where it ends, the end excluded.
        text: the faulty text.
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
    """What is allowed in a caption.

    The defaults are what was wrong about right captions: rules of taste, of one side of the
    Atlantic, and of technical prose ("front end" is a compound there). Captions need no capital at
    their beginning: many published ones have none.

    Attributes:
        ignored_categories: kinds of faults that are not reported.
        ignored_rules: rules that are not reported.
        words: words that are right, beside those of the dictionary; case matters.
        names: whether capitalised words inside a sentence are taken for names, not misspellings.
        quotes: whether what stands between quotation marks is left alone: it is quoted as it is.
        code: whether calls, names of files and formulas are left alone: `range(9)`, `i * 4`.
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
