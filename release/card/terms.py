"""What the card says of licences: each with what it asks for, and all together."""

from typing import NamedTuple

from release.terms import conditions_of_licence
from schemas.release import Condition, Manifest, ReleaseTerms

_ASKED: dict[Condition, str] = {
    "attribution": "name creators, sources and licences",
    "share_alike": "release works derived from share-alike works under the same licence",
    "non_commercial": "use it only for non-commercial purposes",
}
_SHORT: dict[Condition, str] = {
    "attribution": "attribution",
    "share_alike": "share alike",
    "non_commercial": "non-commercial use",
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
    return ", ".join(_SHORT[one] for one in conditions) or "none"


def whole_sentence(manifest: Manifest) -> str:
    """What one must keep to who uses the release as a whole: its images, and its texts."""
    terms, texts = manifest.terms, texts_licence(manifest)
    of_texts = conditions_of_licence(texts) or () if texts else ()
    wanted = [one for one in _ASKED if one in {*terms.conditions, *of_texts}]
    asked = [_ASKED[one] for one in wanted]
    if not terms.is_read:
        asked.append("follow the terms that are not a standard licence")
    if terms.is_read and not terms.conditions:
        return "No licence of an image sets conditions."
    if len(terms.licences) == 1 and wanted == list(terms.conditions):
        return f"You must {_joined(asked)}."
    return (
        f"Each image keeps its licence. To use the release as a whole, you must {_joined(asked)}."
    )


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"


def apart_sentences(terms: ReleaseTerms) -> list[str]:
    """Which images cannot become one work."""
    return [
        f"Images under {one} and under {other} may be in the same collection, but must not be "
        f"combined in one work."
        for one, other in terms.apart
    ]


def texts_licence(manifest: Manifest) -> str | None:
    """Under which licence the texts are that were made here, as an SPDX expression, if stated."""
    return manifest.about.licence if manifest.about else None


def stated_licences(manifest: Manifest) -> list[str]:
    """The licences of all images, then that of the texts where it is another; each once."""
    texts = texts_licence(manifest)
    stated = [one.licence for one in manifest.terms.licences]
    is_same = texts in {one.expression for one in manifest.terms.licences}
    return stated + ([texts] if texts is not None and not is_same else [])


def texts_sentence(manifest: Manifest) -> str:
    """Under which licence the texts are that were made here; empty where none is stated."""
    licence = texts_licence(manifest)
    if licence is None:
        return ""
    asks = " and ".join(_asks(conditions_of_licence(licence)).rsplit(", ", 1))
    return f"The texts made for this release are licensed under {licence}; conditions: {asks}."
