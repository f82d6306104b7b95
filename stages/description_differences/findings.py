"""The three kinds of finding, each with its sentence for the reviewer."""

from collections.abc import Collection, Iterator, Sequence

from schemas.faithfulness import Attribute, Fact, Finding

_NAMES = frozenset((Attribute.GARMENT, Attribute.FOOTWEAR, Attribute.ACCESSORY))


def added(fact: Fact, minor: bool = False) -> Finding:
    """The finding that a rewrite states something of its own."""
    message = f"The rewrite adds {_said(fact)}, which the source does not say."
    return Finding(change="added", message=message, rewrite=fact, minor=minor)


def lost(fact: Fact) -> Finding:
    """The finding that a rewrite leaves something out."""
    message = f"The rewrite leaves out {_said(fact)}."
    return Finding(change="lost", message=message, source=fact, minor=True)


def contradicted(source: Fact, rewrite: Fact, minor: bool = False) -> Finding:
    """The finding that a rewrite states something else."""
    message = f"The rewrite says {_said(rewrite)}; the source says {_said(source)}."
    return Finding(
        change="contradicted", message=message, source=source, rewrite=rewrite, minor=minor
    )


def changed(source: Sequence[Fact], fact: Fact) -> Finding:
    """A strange fact: against the first that `source` states, or as an addition to nothing."""
    return contradicted(source[0], fact) if source else added(fact)


def left_out(source: Sequence[Fact], repeated: Collection[str]) -> Iterator[Finding]:
    """A loss for each fact of the source whose value the rewrite does not repeat."""
    for fact in source:
        if fact.value not in repeated:
            yield lost(fact)


def _said(fact: Fact) -> str:
    if fact.attribute in _NAMES or fact.subject == "text":
        return f"«{fact.value}»"
    if fact.attribute is Attribute.SIDE:
        return f"that the {fact.subject} is on the {fact.value}"
    return f"{fact.attribute} «{fact.value}» of the {fact.subject}"
