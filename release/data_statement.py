"""The data statement of the card: where the language in a release comes from.

After Bender and Friedman (2018), "Data Statements for Natural Language Processing". What is not
known is said to be not known, for nobody asked.
"""

from typing import NamedTuple

from release.card.front import languages
from release.croissant.facts import collection_sentence
from release.reviewed import is_of_persons
from schemas.release import Manifest

_NOT_ASKED = "age, gender, first language and training were not asked for"


class Statement(NamedTuple):
    """A heading of the data statement, and what is known."""

    heading: str
    text: str


def data_statement(manifest: Manifest) -> list[Statement]:
    """The statement, heading by heading."""
    details = [
        Statement("Curation rationale", f"{collection_sentence(manifest)} {_rationale(manifest)}"),
        Statement("Language variety", _variety(manifest)),
        Statement("Authors of the texts", _authors(manifest)),
        Statement("Annotators", _annotators(manifest)),
        Statement(
            "Situation",
            "Generated; no situation applies."
            if manifest.demonstration
            else "Written, not spoken: what an image shows, for readers who search for that image.",
        ),
        Statement("Text characteristics", _characteristics(manifest)),
        Statement("Images", _images(manifest)),
    ]
    return [one for one in details if one.text]


def _rationale(manifest: Manifest) -> str:
    what = "people" if is_of_persons(manifest) else "scenes"
    return f"The texts are meant to distinguish {what} that look alike by all visible details."


def _variety(manifest: Manifest) -> str:
    spoken = languages(manifest)
    more = f"; translations into {', '.join(spoken[1:])}" if len(spoken) > 1 else ""
    return f"English (en), of no stated variety{more}."


def _authors(manifest: Manifest) -> str:
    statistics = manifest.statistics
    made, parts = statistics.descriptions, []
    here = made.written + made.edited + made.drafted if made else 0
    given = sum(one.originals for one in statistics.sources) - here
    if given:
        parts.append(f"{given:,} texts by authors of the sources")
    contrasts = statistics.contrasts
    if contrasts and (coarse := contrasts.coarse_captions):
        parts.append(f"{coarse:,} coarse captions of anchors by authors of the sources")
    if made and made.annotators:
        people = "1 person" if made.annotators == 1 else f"{made.annotators:,} people"
        parts.append(f"{made.written + made.edited:,} by {people} for this release")
    drafted = made.drafted if made else 0
    written = statistics.rewrites.released - statistics.rewrites.edited + drafted
    if written:
        models = ", ".join(sorted({one.name for one in manifest.models})) or "models"
        parts.append(f"{written:,} by {models}")
    if statistics.rewrites.edited:
        parts.append(f"{statistics.rewrites.edited:,} edits of rewrites by people for this release")
    return f"{'; '.join(parts)}." if parts else ""


def _annotators(manifest: Manifest) -> str:
    agreement = manifest.statistics.agreement
    made = manifest.statistics.descriptions
    counts = [one.annotators for one in agreement] + [made.annotators if made else 0]
    if not max(counts):
        if manifest.unreviewed:
            return "Nobody annotated or reviewed this release."
        return f"The number of reviewers is not recorded; {_NOT_ASKED}."
    least = max(counts)
    people = "one person" if least == 1 else f"{least:,} people"
    return f"At least {people}, known by pseudonyms; {_NOT_ASKED}."


def _characteristics(manifest: Manifest) -> str:
    statistics = manifest.statistics
    words = statistics.words
    return (
        f"Descriptions of {words.minimum} to {words.maximum} words, {words.mean:.1f} on average; "
        f"{statistics.vocabulary:,} different words."
    )


def _images(manifest: Manifest) -> str:
    if manifest.videos:
        seconds = [one.duration_seconds for one in manifest.videos]
        known = [one for one in seconds if one is not None]
        length = (
            f", {sum(known) / 60:.1f} minutes long in total" if len(known) == len(seconds) else ""
        )
        return f"Cut out of {len(manifest.videos):,} videos{length}; not re-encoded since."
    contrasts = manifest.statistics.contrasts
    edited = sum(one.edited for one in contrasts.differences) if contrasts else 0
    if edited:
        return f"{edited:,} are edited; the bytes of the others are those of their sources."
    return "The bytes are those of the sources; nothing was re-encoded."
