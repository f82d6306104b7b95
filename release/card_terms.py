"""What the card says of licences: each with what it asks for, and all together."""

from typing import NamedTuple

from schemas.release import Manifest
from schemas.release_terms import Condition, ReleaseTerms

_ASKED: dict[Condition, str] = {
    "attribution": "name creators, sources and licences",
    "share_alike": "release what is made of share-alike images under the same licence",
    "non_commercial": "use it without profit only",
}
_SHORT: dict[Condition, str] = {
    "attribution": "attribution",
    "share_alike": "share alike",
    "non_commercial": "non-commercial",
}


class TermsLine(NamedTuple):
    """A licence as it is stated, in SPDX's words, its images, and what it asks for in short."""

    licence: str
    expression: str
    images: int
    own: int
    asks: str


def terms_table(terms: ReleaseTerms) -> list[TermsLine]:
    """A line for each licence."""
    return [
        TermsLine(one.licence, one.expression, one.images, one.own, _asks(one.conditions))
        for one in terms.licences
    ]


def _asks(conditions: tuple[Condition, ...] | None) -> str:
    if conditions is None:
        return "read the terms"
    return ", ".join(_SHORT[one] for one in conditions) or "nothing"


def whole_sentence(terms: ReleaseTerms) -> str:
    """What one must keep to who uses the release as a whole."""
    asked = [_ASKED[one] for one in terms.conditions]
    if not terms.is_read:
        asked.append("keep to the terms in words of their own")
    if not asked:
        return "No licence in it asks for anything."
    many = len(terms.licences) > 1
    whole = (
        "Each image keeps its licence. Who uses the release as a whole must" if many else "One must"
    )
    return f"{whole} {_joined(asked)}."


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"


def apart_sentences(terms: ReleaseTerms) -> list[str]:
    """Which images cannot become one work."""
    return [
        f"Images under {one} and under {other} may stand side by side in a collection, but no "
        f"single work may be made of both."
        for one, other in terms.apart
    ]


def texts_sentence(manifest: Manifest) -> str:
    """Under which licence the texts are that were made here; empty where none is stated."""
    licence = manifest.about.licence if manifest.about else None
    if licence is None:
        return ""
    return f"The texts that were made here are given under {licence}."
