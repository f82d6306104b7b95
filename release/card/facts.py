"""Facts on a release: sources, review, RAI properties of Croissant, terms, and citation."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from loupe.release.card.markup import share_text
from loupe.release.card.model_use import BUILTIN_PREFIX, is_drawn, step_author
from loupe.schemas.licences import Condition, condition_names, licence_of
from loupe.schemas.release import (
    AgreementStatistics,
    Creator,
    Manifest,
    ReleaseAbout,
    ReleasedSource,
    ReleaseTerms,
)
from loupe.schemas.wording import joined, many


class ReviewShare(NamedTuple):
    """The number of items of a kind in the release, and of those reviewed by a person."""

    kind: str
    released: int
    reviewed: int


def review_shares(manifest: Manifest) -> list[ReviewShare]:
    """The review shares by kind; kinds without items are omitted.

    Texts of sources are not reviewed here and not counted.
    """
    statistics = manifest.statistics
    shares = []
    if one := statistics.tracklets:
        shares.append(ReviewShare("tracklets", one.released, one.reviewed))
    if made := statistics.descriptions:
        people = made.written + made.edited
        shares.append(ReviewShare("descriptions", people + made.drafted, people + made.reviewed))
    shares.append(
        ReviewShare("rewrites", statistics.rewrites.released, statistics.rewrites.reviewed)
    )
    return [share for share in shares if share.released]


def languages(manifest: Manifest) -> list[str]:
    """The languages of the captions and of their translations (ISO 639-1)."""
    contrasts, checked = manifest.statistics.contrasts, manifest.statistics.text_checks
    written = checked.language if checked else "en"
    translated = [language for language, _ in contrasts.translations] if contrasts else []
    return [written, *sorted(set(translated) - {written})]


def rule_authors(manifest: Manifest) -> list[str]:
    """The steps of a pipeline of one's own that wrote texts and ask no model, as authors."""
    if manifest.form is None or manifest.statistics.contrasts:  # a strategy's text is a model's
        return []
    steps = [one for one in manifest.form.steps if not one.models]
    authors = {author for author, _ in manifest.statistics.authors}
    return [name for one in steps if (name := step_author(manifest.dataset, one)) in authors]


def captions_by_rules(manifest: Manifest) -> int:
    """The number of captions that steps without a model wrote."""
    return sum(map(dict(manifest.statistics.authors).__getitem__, rule_authors(manifest)))


def _unasked_differences(manifest: Manifest) -> list[str]:
    """The types of differences that no image was wanted of."""
    contrasts, asked = manifest.statistics.contrasts, manifest.statistics.quotas
    if contrasts is None or not asked:
        return []
    types = [one.difference.value for one in contrasts.differences]
    return [one for one in types if not any(quota.what.endswith(one) for quota in asked)]


def has_identities(manifest: Manifest) -> bool:
    """Whether rows are of identities, of which several images may show the same one."""
    return not (manifest.statistics.tasks or manifest.statistics.contrasts)


def is_of_persons(manifest: Manifest) -> bool:
    """Whether the images show people instead of scenes or things."""
    if manifest.form is not None:  # a dataset of one's own says what it shows
        return bool(manifest.of_persons)
    return has_identities(manifest) if manifest.of_persons is None else manifest.of_persons


def may_show_people(manifest: Manifest) -> bool:
    """Whether the images may show people, real or drawn: unless the build says they do not."""
    tags = " ".join(manifest.form.tags) if manifest.form else ""
    if manifest.videos or is_of_persons(manifest) or "person" in tags or "people" in tags:
        return True
    return manifest.form is None and manifest.of_persons is not False


def images_with_faces(manifest: Manifest) -> int:
    """The number of images that may show real people, and in which no faces were looked for."""
    if not may_show_people(manifest) or is_all_drawn(manifest):
        return 0
    statistics = manifest.statistics
    return statistics.images - sum(one.images for one in statistics.faces)


def faces_sentence(manifest: Manifest) -> str:
    """That faces are as they were, as a sentence; empty if it is not so."""
    kept, images = images_with_faces(manifest), manifest.statistics.images
    if kept <= 0:
        return ""
    where = "" if kept == images else f" in {kept:,} of {images:,} images"
    return f"Faces are kept as they are{where}: people may be recognised."


def drawn_sentence(manifest: Manifest) -> str:
    """That the images are drawn, as a sentence; empty unless it is a demonstration of them."""
    if not is_all_drawn(manifest):
        return ""
    drawn = [one.name for one in manifest.sources if one.format != _SEARCH]
    has_found = len(drawn) < len(manifest.sources)
    whose = f" of {joined(list(dict.fromkeys(drawn)))}" if has_found else ""
    return f"The images{whose} are drawn: they show no real person, and no real face."


def is_all_drawn(manifest: Manifest) -> bool:
    """Whether all images were drawn for a demonstration, which may search in what was drawn."""
    others = [one for one in manifest.sources if not is_drawn(one)]
    return len(others) < len(manifest.sources) and all(
        one.format == _DRAWN or (one.format == _SEARCH and one.name.startswith(BUILTIN_PREFIX))
        for one in others
    )


_DRAWN = "rendered"
_SEARCH = "image-search"


def cited_sources(manifest: Manifest) -> list[ReleasedSource]:
    """The sources with a citation, one for each citation.

    A search has none: the creators of its images are in `ATTRIBUTION.md`.
    """
    cited = [one for one in manifest.sources if one.citation.strip()]
    return list({(one.name, one.citation): one for one in cited}.values())


_PERSONAL = "Images show people; captions describe how they look: sex, age, clothing."
_WITHDRAWAL = (
    "Releases never change. Withdrawn items are left out of the next patch version, and users of "
    "earlier copies get a list of the withdrawn rows."
)


def responsible_facts(manifest: Manifest) -> dict[str, Any]:
    """The RAI properties; unknown ones are omitted."""
    details = {
        "dataCollection": collection_sentence(manifest),
        "dataCollectionType": _collection_types(manifest),
        "dataPreprocessingProtocol": _preprocessing(manifest),
        "dataAnnotationProtocol": [f"{one.prompt_id} {one.version}" for one in manifest.prompts],
        "dataAnnotationAnalysis": _analysis(manifest),
        "machineAnnotationTools": _tools(manifest),
        "dataUseCases": [
            "Training and measuring image–text retrieval"
            if not manifest.demonstration
            else "Trying out the tools; do not evaluate models on a demonstration"
        ],
        "dataLimitations": limitations(manifest),
        "personalSensitiveInformation": [
            *([_PERSONAL] if is_of_persons(manifest) and not drawn_sentence(manifest) else []),
            *filter(None, [drawn_sentence(manifest), faces_sentence(manifest)]),
        ],
        "dataReleaseMaintenancePlan": _WITHDRAWAL,
    }
    return {name: fact for name, fact in details.items() if fact}


def limitations(manifest: Manifest) -> list[str]:
    """The limitations of the release, one sentence each."""
    details = []
    if manifest.demonstration:
        details.append(
            "This release contains drawn pictures or the output of built-in rule-based models."
        )
    if manifest.unreviewed:
        details.append(unreviewed_sentence(manifest))
    for one in review_shares(manifest):
        if one.reviewed < one.released:
            left = one.released - one.reviewed
            details.append(
                f"{left:,} of {one.released:,} {one.kind} were not reviewed by a person."
            )
    if manifest.leaks is not None and manifest.leaks.leaks:
        whose = "" if manifest.form else "; they are unchanged from their sources"
        details.append(f"The splits leak{whose}. leaks.json lists the leaks.")
    details += repeat_sentences(manifest)
    return details


def repeat_sentences(manifest: Manifest) -> list[str]:
    """How many images and captions several identities or images have, one sentence for each."""
    repeats, statistics = manifest.statistics.repeats, manifest.statistics
    unit = "identity" if has_identities(manifest) else "image"
    if has_identities(manifest) and is_of_persons(manifest):
        unit = "person"
    details = []
    if repeats.images:
        details.append(
            f"{repeats.images:,} images are the same image, byte for byte, as one of another "
            f"{'row' if unit == 'image' else unit}, such as {_pairs(repeats.image_pairs)}; no "
            f"model can tell which of them is the target."
        )
    if repeats.captions:
        share = share_text(repeats.captions, statistics.captions)
        details.append(
            f"{repeats.captions:,} captions ({share}) also occur, word for word, at another "
            f"{unit}, such as those of {_pairs(repeats.caption_pairs)}. A search for such a "
            f"caption counts only its own {unit} as right, so no model can reach 100 %."
        )
    return details


def _pairs(files: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{one} and {other}" for one, other in files)


def quota_sentence(manifest: Manifest) -> str:
    """What the build asked for, and whether the release has it; empty if it asked for nothing."""
    quotas = manifest.statistics.quotas
    if not quotas:
        return ""
    lacks = any(one.short_by for one in quotas)
    if manifest.statistics.contrasts is None:
        return (
            "This release lacks some of what its build asked for:"
            if lacks
            else "This release has all that its build asked for:"
        )
    unasked = _unasked_differences(manifest)
    nothing = f" Nothing was asked for {', '.join(unasked)}." if unasked else ""
    return (
        f"An image was wanted for each accepted change of an original (a strategy), and at least "
        f"one for each original. {'Some are missing.' if lacks else 'All were made.'} Changes that "
        f"were not accepted are not counted here.{nothing}"
    )


def unreviewed_sentence(manifest: Manifest) -> str:
    """What nobody has reviewed, as a sentence."""
    made = manifest.statistics.descriptions
    drafted = made.drafted if made else 0
    by_models = not manifest.form or manifest.models or drafted > captions_by_rules(manifest)
    texts = "the texts that models wrote" if by_models else "the texts that were made"
    return f"No person has reviewed {texts} for this release."


def collection_sentence(manifest: Manifest) -> str:
    """The origin of the images, as a sentence."""
    original = cited_sources(manifest) or manifest.sources
    names = ", ".join(dict.fromkeys(one.name for one in original))
    if manifest.videos:
        videos = many(len(manifest.videos), "video")
        return f"People were found, tracked and cut out of {videos} of {names}."
    contrasts = manifest.statistics.contrasts
    if contrasts:
        return (
            f"{contrasts.anchors:,} images of {names} and {contrasts.contrastive:,} that differ "
            f"from one of them in one detail, found by search or edited."
        )
    return f"The images are from {names}."


def _collection_types(manifest: Manifest) -> list[str]:
    kinds = ["Secondary Data Analysis"]
    descriptions = manifest.statistics.descriptions
    if manifest.models:
        kinds.append("Machine-generated")
    if descriptions and descriptions.annotators:
        kinds.append("Manual Human Curation")
    return kinds


def _preprocessing(manifest: Manifest) -> list[str]:
    details = []
    if manifest.trackers:
        details.append(f"People were found by {', '.join(manifest.trackers)}.")
    contrasts = manifest.statistics.contrasts
    details += [
        f"{images:,} images were edited by {editor}."
        for editor, images in (contrasts.editors if contrasts else ())
    ]
    return details


def _analysis(manifest: Manifest) -> list[str]:
    details = [
        f"{one.reviewed:,} of {one.released:,} {one.kind} were reviewed by a person."
        for one in review_shares(manifest)
    ]
    details += map(_agreement_sentence, manifest.statistics.agreement)
    details += [f"{look.queue}: audit sample: {look}" for look in manifest.statistics.audits]
    return details


def _agreement_sentence(one: AgreementStatistics) -> str:
    """The agreement of annotators in one control of a queue, as a sentence."""
    what = "agreement" if one.kind == "choice" else "similarity"
    alpha = "" if one.coefficient is None else f", Krippendorff's alpha {one.coefficient:.3f}"
    return (
        f"{one.queue}, {one.control}: {what} {one.observed:.3f} between answers of "
        f"{one.annotators} people to {one.items:,} shared items{alpha}."
    )


def _tools(manifest: Manifest) -> list[str]:
    models = [f"{one.name}@{one.revision}" for one in manifest.models]
    contrasts = manifest.statistics.contrasts
    editors = [editor for editor, _ in contrasts.editors] if contrasts else []
    return list(dict.fromkeys((*models, *manifest.trackers, *editors)))


# The terms of a release in words.

_CONDITION_PHRASES: dict[Condition, str] = {
    "attribution": "name creators, sources and licences",
    "share_alike": "release works derived from share-alike works under the same licence",
    "non_commercial": "use it only for non-commercial purposes",
}
_SHORT: dict[Condition, str] = {
    "attribution": "attribution",
    "share_alike": "share alike",
    "non_commercial": "non-commercial use",
}


def conditions_in_words(conditions: tuple[Condition, ...] | None) -> str:
    """What a licence asks, in short."""
    if conditions is None:
        return "read the terms"
    return ", ".join(_SHORT[one] for one in conditions) or "none"


def whole_sentence(manifest: Manifest) -> str:
    """The conditions for using the release as a whole, with images and texts."""
    terms, texts = manifest.terms, _texts_licence(manifest)
    of_texts = condition_names(texts) or () if texts else ()
    wanted = [one for one in _CONDITION_PHRASES if one in {*terms.conditions, *of_texts}]
    asked = [_CONDITION_PHRASES[one] for one in wanted]
    if not terms.is_read:
        asked.append("follow the terms that are not a standard licence")
    if terms.is_read and not terms.conditions:
        return "No image licence sets conditions."
    if len(terms.licences) == 1 and wanted == list(terms.conditions):
        return f"You must {_joined(asked)}."
    return (
        f"Each image keeps its licence. To use the release as a whole, you must {_joined(asked)}."
    )


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"


def apart_sentences(terms: ReleaseTerms) -> list[str]:
    """Sentences on images that cannot be combined in one work."""
    return [
        f"Images under {one} and under {other} may be in the same collection, but must not be "
        f"combined in one work."
        for one, other in terms.apart
    ]


def _texts_licence(manifest: Manifest) -> str | None:
    """The SPDX expression of the licence of the texts made here, if stated."""
    return manifest.about.licence if manifest.about else None


def stated_licences(manifest: Manifest) -> list[str]:
    """The licences of all images, then that of the texts if it differs; each once."""
    texts = _texts_licence(manifest)
    stated = [one.licence for one in manifest.terms.licences]
    is_same = texts in {one.expression for one in manifest.terms.licences}
    return stated + ([texts] if texts is not None and not is_same else [])


def texts_sentence(manifest: Manifest) -> str:
    """The licence of the texts made here, as a sentence; empty if none is stated."""
    licence = _texts_licence(manifest)
    if licence is None:
        return ""
    asks = " and ".join(conditions_in_words(condition_names(licence)).rsplit(", ", 1))
    return f"The texts made for this release are licensed under {licence}; conditions: {asks}."


# How to cite a release: `CITATION.cff`, in the Citation File Format 1.2.0, and BibTeX.

_CFF_VERSION = "1.2.0"
_MESSAGE = "If you use this dataset, please cite it as below, and its sources with it."


def citation(manifest: Manifest) -> dict[str, Any]:
    """The citation of a release, by the field names of the format."""
    about = manifest.about or ReleaseAbout()
    details: dict[str, Any] = {
        "cff-version": _CFF_VERSION,
        "message": " ".join(filter(None, (_MESSAGE, texts_sentence(manifest)))),
        "type": "dataset",
        "title": about.title or manifest.dataset,
        "version": manifest.version,
        "authors": [_agent(one) for one in about.named(manifest.dataset)],
        "abstract": about.description,
        "doi": about.doi,
        "url": about.homepage,
        "date-released": about.date_released.isoformat() if about.date_released else None,
        "license": _licences(manifest),
        "keywords": keywords(manifest),
        "references": [_reference(source) for source in cited_sources(manifest)],
    }
    return {name: value for name, value in details.items() if value}


def bibtex(cited: Mapping[str, Any]) -> str:
    """A citation in BibTeX."""
    names = [
        one.get("name")
        or ", ".join(filter(None, (one.get("family-names"), one.get("given-names"))))
        for one in cited["authors"]
    ]
    fields = {
        "title": f"{cited['title']} ({cited['version']})",
        "author": " and ".join(f"{{{name}}}" if "," not in name else name for name in names),
        "version": cited["version"],
        "year": str(cited.get("date-released", ""))[:4],
        "doi": cited.get("doi"),
        "url": cited.get("url"),
    }
    details = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    letters = (one for one in cited["title"] if one.isascii() and one.isalnum())
    name = "".join(letters) or "dataset"
    return f"@misc{{{name}-{cited['version']},\n{details}\n}}"


def keywords(manifest: Manifest) -> list[str]:
    """Keywords of the release."""
    words = ["image-text retrieval"]
    words += ["text-based person retrieval"] if is_of_persons(manifest) else []
    words += ["contrastive images"] if manifest.statistics.contrasts else []
    words += manifest.form.tags if manifest.form else ()
    words += ["demonstration"] if manifest.demonstration else []
    return words


def _agent(creator: Creator) -> dict[str, str]:
    details = {
        "family-names": creator.family_names,
        "given-names": creator.given_names,
        "name": creator.name,
        # entities have no affiliation in this format
        "affiliation": creator.affiliation if creator.is_person else None,
        "orcid": creator.orcid,
        "website": creator.website,
    }
    return {name: value for name, value in details.items() if value}


def _licences(manifest: Manifest) -> str | list[str] | None:
    """SPDX identifiers; several mean a choice between them.

    The format cannot express several licences that all apply, nor texts under another licence than
    the images. In these cases there is no identifier, and the message says it instead.
    """
    stated = stated_licences(manifest)
    if len(stated) != 1 or not manifest.terms.is_read:
        return None
    known = licence_of(stated[0])
    names = [next(iter(one)) for one in known.choices if len(one) == 1] if known else []
    if not names or not known or len(names) < len(known.choices):
        return None
    if any(name.startswith("LicenseRef-") for name in names):
        return None
    return names[0] if len(names) == 1 else names


def _reference(source: ReleasedSource) -> dict[str, Any]:
    """A source; its own citation becomes a note, because it is not parsed."""
    home = source.homepage or ""
    details = {
        "type": "dataset",
        "title": source.name,
        "authors": [{"name": f"The authors of {source.name}"}],
        "notes": source.citation.strip(),
        "url": source.homepage if home.startswith(("https://", "http://")) else None,
    }
    return {name: value for name, value in details.items() if value}
