"""What speaks against the captions of groups: wording, style, and what the embedder finds."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.decisions import NewDecision, append_decisions
from db.entities import StoredEntity, find
from flows.answers import shown, words_of
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.image_reading import stored_picture
from flows.engine.report import StageReport
from flows.engine.runner import Stage, quarantine
from schemas.contrast import (
    WORD,
    Phrase,
    PhraseKind,
    caption_name,
    content_words,
    image_letter,
    indistinct,
    phrases,
)
from schemas.proposals import CaptionGroup
from schemas.records import Rejection
from schemas.requests import StyleLimits


def refused_phrase(caption: str, coarse: str) -> Phrase | None:
    """The first phrase by which a caption speaks of another image; None where it speaks of none."""
    others = (one for one in _own_phrases(caption, coarse) if one.kind is PhraseKind.OTHER_IMAGE)
    return next(others, None)


def doubtful_phrases(caption: str, coarse: str) -> list[Phrase]:
    """Phrases that compare with what is not shown, or name what is not there."""
    return [one for one in _own_phrases(caption, coarse) if one.kind is not PhraseKind.OTHER_IMAGE]


def _own_phrases(caption: str, coarse: str) -> list[Phrase]:
    """The phrases of a caption that its coarse caption does not have.

    What that has, too, speaks of what is seen: «two pictures on a wall».
    """
    allowed = {words_of(one.text) for one in phrases(coarse)}
    return [one for one in phrases(caption) if words_of(one.text) not in allowed]


def same_captions(captions: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of captions that say what an earlier one says, with that one's before them.

    Neither case nor space nor punctuation counts (`words_of`).
    """
    first: dict[tuple[str, ...], int] = {}
    found = []
    for position, caption in enumerate(captions):
        earlier = first.setdefault(words_of(caption), position)
        if earlier != position:
            found.append((earlier, position))
    return found


# How close a fine caption is to the style of its coarse one.

_SENTENCE_END = re.compile(r"[.!?]+[\"”’»)]*(?=\s+\S|$)")
_ABOUT_THE_IMAGE = re.compile(
    r"^\W*(?:(?:in )?(?:the|this|an?) (?:\w+ )?(?:image|picture|photo|photograph|scene)"
    r"(?:,|\s+(?:shows?|depicts?|captures?|features?|is of|of|displays?|showing|depicting)\b)"
    r"|(?:this|it) is (?:an?|the) (?:image|picture|photo|photograph)\b"
    r"|(?:we|you) (?:can )?see\b|there (?:can be seen|is shown)\b|shown (?:here )?(?:is|are)\b)",
    re.IGNORECASE,
)
_SPOKEN_TO = re.compile(r"\b(?:i|we|you|your|our|us)\b", re.IGNORECASE)
_COMPARED_LETTERS = 4
_FORMS: dict[str, Callable[[str], bool]] = {
    "is about the image": lambda text: _ABOUT_THE_IMAGE.search(text) is not None,
    "speaks to somebody": lambda text: _SPOKEN_TO.search(text) is not None,
    "asks or exclaims": lambda text: text.rstrip(' "”’»)').endswith(("?", "!")),
}
"""Ways of speaking."""


class Style(NamedTuple):
    """The measures of a fine caption compared with its coarse one.

    Attributes:
        words: of the fine caption.
        length_ratio: its words to those of the coarse caption.
        kept_share: the share of the coarse caption's content words of which it has a form.
        sentences: how many it has.
        further_sentences: how many more than the coarse caption.
        new_forms: ways of speaking that the coarse caption has not: `is about the image` («The
            picture shows …»), `speaks to somebody` (I, we, you), `asks or exclaims`.
    """

    words: int
    length_ratio: float
    kept_share: float
    sentences: int
    further_sentences: int
    new_forms: tuple[str, ...]


def style_beside(fine: str, coarse: str) -> Style:
    """The measures of a fine caption compared with its coarse one.

    Forms of a word are words with the same beginning: four letters, or by all but one where one has
    fewer. Sentences end with `.`, `!` or `?`; a text without has one.
    """
    words, coarse_words = len(WORD.findall(fine)), len(WORD.findall(coarse))
    wanted, said = content_words(coarse), content_words(fine)
    kept = sum(any(_is_form(word, one) for one in said) for word in wanted)
    sentences, coarse_sentences = _sentences(fine), _sentences(coarse)
    forms = {name for name, has in _FORMS.items() if has(fine) and not has(coarse)}
    return Style(
        words=words,
        length_ratio=words / max(1, coarse_words),
        kept_share=kept / len(wanted) if wanted else 1.0,
        sentences=sentences,
        further_sentences=max(0, sentences - coarse_sentences),
        new_forms=tuple(sorted(forms)),
    )


def style_doubts(fine: str, coarse: str, limits: StyleLimits) -> list[str]:
    """What of a fine caption's style speaks against it, as ends of a sentence about it."""
    style = style_beside(fine, coarse)
    doubts = []
    if style.length_ratio < limits.shortest_ratio:
        doubts.append("is much shorter than the coarse caption")
    if style.length_ratio > limits.longest_ratio and style.words > limits.free_words:
        doubts.append(f"is {style.length_ratio:.1f} times as long as the coarse caption")
    if style.kept_share < limits.kept_share:
        doubts.append(f"keeps {style.kept_share:.0%} of the coarse caption's words")
    if style.further_sentences > limits.further_sentences:
        doubts.append(f"has {style.sentences} sentences")
    return [*doubts, *style.new_forms]


def _sentences(text: str) -> int:
    return max(1, len(_SENTENCE_END.findall(text.strip())))


def _is_form(one: str, other: str) -> bool:
    letters = min(_COMPARED_LETTERS, max(2, min(len(one), len(other)) - 1))
    return one[:letters] == other[:letters] if min(len(one), len(other)) > 2 else one == other


# Problems of a group's captions: doubts for people, and captions that are unusable.

CHECKS_STAGE = "check_group"
CHECKS_VERSION = "1"

_LIMITS = StyleLimits()


class GroupCheck(NamedTuple):
    """What speaks against a group.

    Attributes:
        doubts: sentences for people, the first captions first; `CaptionGroup.doubts`.
        unusable: captions with which the group cannot be released, even if it was accepted: they
            speak of another image, or two images have the same. The context has `caption` (A1 is
            the first caption of the anchor), `row` and `column`, both from 0.
    """

    doubts: tuple[str, ...]
    unusable: tuple[Rejection, ...]


def check_group(group: CaptionGroup, limits: StyleLimits = _LIMITS) -> GroupCheck:
    """What the words of a group's captions show to be wrong with it.

    Captions are compared with the coarse caption that they were made from and with those of the
    other images that were made from the same. The images are not looked at: see `two_way_check`.
    """
    return GroupCheck(
        doubts=(*_wording_doubts(group, limits), *_contrast_doubts(group), *_repeated(group)),
        unusable=(*_of_other_images(group), *_same_for_two(group)),
    )


def _cells(group: CaptionGroup) -> Iterator[tuple[int, int, str, str]]:
    """Row, column, coarse and fine caption of each."""
    for row, coarse in enumerate(group.coarse_captions):
        for column, member in enumerate(group.members):
            yield row, column, coarse, member.captions[row]


def _wording_doubts(group: CaptionGroup, limits: StyleLimits) -> Iterator[str]:
    for row, column, coarse, fine in _cells(group):
        name = f"Caption {caption_name(row, column)}"
        for phrase in doubtful_phrases(fine, coarse):
            yield f"{name} {phrase.kind}: {shown(phrase.text)}."
        for doubt in style_doubts(fine, coarse, limits):
            yield f"{name} {doubt}."


def _contrast_doubts(group: CaptionGroup) -> Iterator[str]:
    differences = [member.difference for member in group.members]
    for row in range(len(group.coarse_captions)):
        captions = [member.captions[row] for member in group.members]
        for column, others in enumerate(indistinct(captions, differences)):
            if others:
                name, letters = caption_name(row, column), " and ".join(map(image_letter, others))
                yield f"Caption {name} says nothing that tells it from {letters}."


def _repeated(group: CaptionGroup) -> Iterator[str]:
    """Captions of one image that say the same."""
    for column, member in enumerate(group.members):
        for first, second in same_captions(member.captions):
            names = caption_name(first, column), caption_name(second, column)
            yield f"Captions {names[0]} and {names[1]} say the same."


def _of_other_images(group: CaptionGroup) -> Iterator[Rejection]:
    for row, column, coarse, fine in _cells(group):
        if (phrase := refused_phrase(fine, coarse)) is not None:
            detail = f"speaks of another image: {shown(phrase.text)}."
            yield _unusable("speaks_of_other_image", row, column, detail, fine)


def _same_for_two(group: CaptionGroup) -> Iterator[Rejection]:
    cells = list(_cells(group))
    for first, second in same_captions([fine for _, _, _, fine in cells]):
        (one, column, _, _), (row, other, _, fine) = cells[first], cells[second]
        if column != other:
            detail = f"says what {caption_name(one, column)} says of another image."
            yield _unusable("same_captions", row, other, detail, fine)


def _unusable(reason: str, row: int, column: int, detail: str, text: str) -> Rejection:
    name = caption_name(row, column)
    return Rejection(
        stage=CHECKS_STAGE,
        reason=reason,
        detail=f"Caption {name} {detail}",
        context={"caption": name, "row": row, "column": column, "text": text},
    )


# Whether each caption of a group prefers its own image, and each image its own captions.
#
# A caption that an embedder assigns to a sibling's image need not be wrong: it goes to people.

Vectors = NDArray[np.floating]
_DECIMALS = 6


class CaptionPreference(NamedTuple):
    """What an embedder makes of one caption.

    Attributes:
        row: the coarse caption that it was made from, from 0.
        column: its image.
        similarity: its cosine to its own image.
        nearest_image: of the other images, the one that it is nearest to.
        nearest_similarity: its cosine to that.
        best_caption: of the other images' captions from the same coarse one, that of the image
            whose caption its own image is nearest to.
        best_similarity: the cosine of that caption to the caption's own image.
    """

    row: int
    column: int
    similarity: float
    nearest_image: int
    nearest_similarity: float
    best_caption: int
    best_similarity: float

    @property
    def prefers_other_image(self) -> bool:
        """Whether another image is as near to the caption as its own, or nearer."""
        return self.nearest_similarity >= self.similarity

    @property
    def loses_own_image(self) -> bool:
        """Whether another image's caption is as near to its own image, or nearer."""
        return self.best_similarity >= self.similarity

    @property
    def sentence(self) -> str:
        """What is wrong, for people; empty where nothing is."""
        name, own = caption_name(self.row, self.column), image_letter(self.column)
        problems = []
        if self.prefers_other_image:
            problems.append(
                f"fits image {image_letter(self.nearest_image)} as well as its own or better "
                f"({self.nearest_similarity:.3f} and {self.similarity:.3f})"
            )
        if self.loses_own_image:
            problems.append(
                f"fits image {own} no better than caption "
                f"{caption_name(self.row, self.best_caption)} does "
                f"({self.similarity:.3f} and {self.best_similarity:.3f})"
            )
        return f"Caption {name} {', and '.join(problems)}, says the embedder." if problems else ""


def check_preferences(text_vectors: Vectors, image_vectors: Vectors) -> list[CaptionPreference]:
    """One finding for each caption: row by row, in each the images in their order.

    A caption has to be nearer to its own image than to any other of the group, and its image
    nearer to it than to the other images' captions from the same coarse caption. Cosines are
    rounded to six decimals, so that the same comes out on every machine; ties are errors.

    Args:
        text_vectors: of k coarse captions × n images, of unit length, of shape (k, n, d).
        image_vectors: of the images, of unit length, of shape (n, d), n at least 2.

    Raises:
        ValueError: the shapes do not fit, or a value is no finite number.
    """
    cosines = _cosines(text_vectors, image_vectors)  # [row, caption's image, image]
    others = cosines.copy()
    each = np.arange(len(image_vectors))
    others[:, each, each] = -np.inf
    by_caption, by_image = others.argmax(axis=2), others.argmax(axis=1)
    return [
        CaptionPreference(
            row=row,
            column=column,
            similarity=float(cosines[row, column, column]),
            nearest_image=int(image := by_caption[row, column]),
            nearest_similarity=float(cosines[row, column, image]),
            best_caption=int(caption := by_image[row, column]),
            best_similarity=float(cosines[row, caption, column]),
        )
        for row in range(len(cosines))
        for column in each.tolist()
    ]


def _cosines(text_vectors: Vectors, image_vectors: Vectors) -> NDArray[np.float64]:
    texts, images = np.asarray(text_vectors, np.float64), np.asarray(image_vectors, np.float64)
    if images.ndim != 2 or len(images) < 2 or texts.shape[1:] != images.shape:
        raise ValueError(
            f"text_vectors must be (k, n, d) and image_vectors (n, d), n at least 2; "
            f"got {texts.shape} and {images.shape}"
        )
    if not (np.isfinite(texts).all() and np.isfinite(images).all()):
        raise ValueError("vectors must hold finite numbers only")
    cosines: NDArray[np.float64] = np.einsum("rcd,id->rci", texts, images)
    return cosines.round(_DECIMALS)


def refuse_unusable_groups(context: RunContext, dataset: str) -> StageReport:
    """Rejects accepted groups that cannot be released, and says why.

    What people write into a group is checked here first. A new answer with other captions makes
    another group, which is checked again.
    """
    refused: list[tuple[StoredEntity, Rejection]] = []
    for group in find(context.store, dataset, CaptionGroup.kind, states=("accepted",)):
        for rejection in check_group(group.record(CaptionGroup)).unusable[:1]:
            context_ = {**rejection.context, "group": group.id, "anchor": group.group}
            refused.append((group, rejection.model_copy(update={"context": context_})))
    stage = Stage(CHECKS_STAGE, CHECKS_VERSION, dataset, {}, label="check groups")
    report = quarantine(context, stage, [(group.seq, why) for group, why in refused])
    decisions = [
        NewDecision(group.id, "reject", context.software, f"it cannot be released: {why.detail}")
        for group, why in refused
    ]
    with context.store.write() as connection:
        append_decisions(connection, decisions)
    if refused:
        group, why = refused[0]
        context.progress.say(
            f"{len(refused):,} accepted groups cannot be released and are left out until their "
            f"captions are changed, the first {group.id[:12]}: {why.detail}"
        )
    return report


def group_doubts(
    context: RunContext,
    embedder: CachedEmbedder,
    limits: StyleLimits,
    groups: Sequence[CaptionGroup],
) -> list[tuple[str, ...]]:
    """What speaks against each group, a sentence each, the worst first."""
    found = []
    for group, preferences in zip(groups, _preferences(context, embedder, groups), strict=True):
        check = check_group(group, limits)
        unusable = (f"{one.detail} It cannot be released so." for one in check.unusable)
        found.append((*unusable, *preferences, *check.doubts))
    return found


def _preferences(
    context: RunContext, embedder: CachedEmbedder, groups: Sequence[CaptionGroup]
) -> list[list[str]]:
    """For each group the captions that the embedder assigns to other images, a sentence each.

    Row by row, in each the images in their order; lone anchors have no other image.
    """
    compared = [group for group in groups if len(group.members) > 1]
    if not compared:
        return [[] for _ in groups]
    fine = [fine for group in compared for *_, fine in _cells(group)]
    members = [member for group in compared for member in group.members]
    pictures = [stored_picture(context, member.picture) for member in members]
    texts = iter(embedder.embed_texts(fine))
    images = iter(embedder.embed_images(pictures))
    sentences: list[list[str]] = []
    for group in groups:
        rows, columns = len(group.coarse_captions), len(group.members)
        if columns == 1:
            sentences.append([])
            continue
        captions = np.array(list(islice(texts, rows * columns))).reshape(rows, columns, -1)
        own: Vectors = np.array(list(islice(images, columns)))
        found = (one.sentence for one in check_preferences(captions, own))
        sentences.append([one for one in found if one])
    return sentences
