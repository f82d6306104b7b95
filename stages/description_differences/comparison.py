"""The comparison of two whole descriptions."""

from models.builtin.person.description import Description
from models.builtin.person.lexicon import load_lexicon
from schemas.faithfulness import Finding
from stages.description_differences.hair import compare_hair
from stages.description_differences.items import compare_items
from stages.description_differences.persons import compare_persons
from stages.description_differences.strange_words import strange_colours, strange_sides


def find_differences(source: Description, rewrite: Description) -> tuple[Finding, ...]:
    """Every attribute that `rewrite` adds to, loses from or contradicts in `source`."""
    lexicon = load_lexicon()
    findings = [
        *compare_persons(source.person, rewrite.person, lexicon),
        *compare_hair(source.hair, rewrite.hair, lexicon),
        *compare_items(source, rewrite, lexicon),
    ]
    told = {finding.rewrite.span for finding in findings if finding.rewrite is not None}
    findings += strange_colours(source, rewrite, told, lexicon)
    findings += strange_sides(source, rewrite, told)
    return tuple(findings)
