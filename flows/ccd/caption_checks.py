"""Check the captions of groups, and apply people's decisions on groups to their captions.

A group is judged as a whole, so its captions are accepted or rejected with it by the same judge.
Captions that a person changed are replaced by new ones; the others are kept.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.checks.text import shown
from loupe.db.decisions import append_decisions, decide, last_agents
from loupe.db.entities import (
    AgentRef,
    NewDecision,
    NewEntity,
    StoredEntity,
    fetch_children,
    new_entity,
    pages,
    parents_of,
)
from loupe.db.store import Store
from loupe.db.work import register_plan, store_activity
from loupe.flows.answers import words_of
from loupe.flows.ccd.run import CcdRun
from loupe.flows.engine.embedding import ReadableImage, stored_picture
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, quarantine
from loupe.flows.engine.software import software
from loupe.schemas.phrases import (
    WORD,
    Phrase,
    PhraseKind,
    caption_name,
    content_words,
    image_letter,
    indistinct,
    phrases,
)
from loupe.schemas.profile import StyleLimits
from loupe.schemas.proposals import CaptionGroup
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection


def refused_phrase(caption: str, coarse: str) -> Phrase | None:
    """Return the first phrase by which a caption refers to another image, or None."""
    others = (one for one in _own_phrases(caption, coarse) if one.kind is PhraseKind.OTHER_IMAGE)
    return next(others, None)


def doubtful_phrases(caption: str, coarse: str) -> list[Phrase]:
    """Return phrases that compare with something not shown or name something absent."""
    return [one for one in _own_phrases(caption, coarse) if one.kind is not PhraseKind.OTHER_IMAGE]


def _own_phrases(caption: str, coarse: str) -> list[Phrase]:
    """Return the phrases of a caption that its coarse caption does not have.

    A phrase that both have describes what the image shows: «two pictures on a wall».
    """
    allowed = {words_of(one.text) for one in phrases(coarse)}
    return [one for one in phrases(caption) if words_of(one.text) not in allowed]


def same_captions(captions: Sequence[str]) -> list[tuple[int, int]]:
    """Return (first, repeated) positions of captions that have the same words.

    Case, white space and punctuation are ignored (`words_of`).
    """
    first: dict[tuple[str, ...], int] = {}
    found = []
    for position, caption in enumerate(captions):
        earlier = first.setdefault(words_of(caption), position)
        if earlier != position:
            found.append((earlier, position))
    return found


# How close the style of a fine caption is to that of its coarse one.

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
"""Changes of form."""


def style_warnings(fine: str, coarse: str, limits: StyleLimits) -> list[str]:
    """Return objections to the style of a fine caption, as ends of a sentence about it.

    Words with the same beginning are forms of one word: the first four letters, or all but the last
    letter of shorter words. Sentences end with `.`, `!` or `?`; a text without these has one
    sentence. A form counts only if the coarse caption does not have it.
    """
    words, coarse_words = len(WORD.findall(fine)), len(WORD.findall(coarse))
    ratio = words / max(1, coarse_words)
    wanted, said = content_words(coarse), content_words(fine)
    kept = [word for word in wanted if any(_is_form(word, one) for one in said)]
    kept_share = len(kept) / len(wanted) if wanted else 1.0
    sentences = _sentences(fine)
    warnings = []
    if ratio < limits.shortest_ratio:
        warnings.append("is much shorter than the coarse caption")
    if ratio > limits.longest_ratio and words > limits.free_words:
        warnings.append(f"is {ratio:.1f} times as long as the coarse caption")
    if kept_share < limits.kept_share:
        warnings.append(f"keeps {kept_share:.0%} of the coarse caption's words")
    if sentences - _sentences(coarse) > limits.further_sentences:
        warnings.append(f"has {sentences} sentences")
    forms = [name for name, has in _FORMS.items() if has(fine) and not has(coarse)]
    return [*warnings, *sorted(forms)]


def _sentences(text: str) -> int:
    return max(1, len(_SENTENCE_END.findall(text.strip())))


def _is_form(one: str, other: str) -> bool:
    letters = min(_COMPARED_LETTERS, max(2, min(len(one), len(other)) - 1))
    return one[:letters] == other[:letters] if min(len(one), len(other)) > 2 else one == other


# Problems of a group's captions: warnings for reviewers, and captions that are unusable.

_CHECKS_STAGE = "check_group"
_CHECKS_VERSION = "1"

_LIMITS = StyleLimits()


class GroupCheck(NamedTuple):
    """Problems of a group.

    Attributes:
        warnings: sentences for reviewers in the order of the captions; `CaptionGroup.warnings`.
        unusable: captions with which the group cannot be released, even if it was accepted: they
            refer to another image, or two images have the same caption. The context has `caption`
            (A1 is the first caption of the anchor), `row` and `column`, both from 0.
    """

    warnings: tuple[str, ...]
    unusable: tuple[Rejection, ...]


def check_group(group: CaptionGroup, limits: StyleLimits = _LIMITS) -> GroupCheck:
    """Return the problems that the words of a group's captions show.

    Captions are compared with their coarse caption and with the captions of the other images that
    were refined from the same coarse caption. The images are not read: see `check_preferences`.
    """
    return GroupCheck(
        warnings=(*_wording_warnings(group, limits), *_contrast_warnings(group), *_repeated(group)),
        unusable=(*_of_other_images(group), *_same_for_two(group)),
    )


def _cells(group: CaptionGroup) -> Iterator[tuple[int, int, str, str]]:
    """Return the row, column, coarse caption and fine caption of each cell."""
    for row, coarse in enumerate(group.coarse_captions):
        for column, member in enumerate(group.members):
            yield row, column, coarse, member.captions[row]


def _wording_warnings(group: CaptionGroup, limits: StyleLimits) -> Iterator[str]:
    for row, column, coarse, fine in _cells(group):
        name = f"Caption {caption_name(row, column)}"
        for phrase in doubtful_phrases(fine, coarse):
            yield f"{name} {phrase.kind}: {shown(phrase.text)}."
        for warning in style_warnings(fine, coarse, limits):
            yield f"{name} {warning}."


def _contrast_warnings(group: CaptionGroup) -> Iterator[str]:
    differences = [member.difference for member in group.members]
    for row in range(len(group.coarse_captions)):
        captions = [member.captions[row] for member in group.members]
        for column, others in enumerate(indistinct(captions, differences)):
            if others:
                name, letters = caption_name(row, column), " and ".join(map(image_letter, others))
                yield f"Caption {name} says nothing that distinguishes it from {letters}."


def _repeated(group: CaptionGroup) -> Iterator[str]:
    """Return the captions of one image that have the same words."""
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
    place = {"caption": name, "row": row, "column": column}
    return Rejection.of(_CHECKS_STAGE, reason, f"Caption {name} {detail}", text=text, **place)


# Whether each caption of a group prefers its own image, and each image its own captions.
#
# A caption that an embedder assigns to a sibling's image may be right, so a reviewer decides.

Vectors = NDArray[np.floating]
_DECIMALS = 6


def check_preferences(text_vectors: Vectors, image_vectors: Vectors) -> list[str]:
    """Return a sentence for each caption that fails, by row and then in the order of the images.

    A caption has to be nearer to its own image than to every other image of the group. Its image
    has to be nearer to it than to the other images' captions refined from the same coarse caption.
    Cosines are rounded to six decimals so that all machines return the same result; ties are
    errors.

    Args:
        text_vectors: unit embeddings of k coarse captions × n images, of shape (k, n, d).
        image_vectors: unit embeddings of the images, of shape (n, d), n at least 2.

    Raises:
        ValueError: the shapes do not match, or a value is not a finite number.
    """
    cosines = _cosines(text_vectors, image_vectors)  # [row, caption's image, image]
    others = cosines.copy()
    each = np.arange(len(image_vectors))
    others[:, each, each] = -np.inf
    sentences = []
    for row, column in np.ndindex(cosines.shape[:2]):
        image = int(others[row, column].argmax())
        caption = int(others[row, :, column].argmax())
        own = cosines[row, column, column]
        nearest, best = cosines[row, column, image], cosines[row, caption, column]
        problems = []
        if nearest >= own:
            problems.append(
                f"fits image {image_letter(image)} as well as its own or better "
                f"({nearest:.3f} and {own:.3f})"
            )
        if best >= own:
            problems.append(
                f"fits image {image_letter(column)} no better than caption "
                f"{caption_name(row, caption)} does ({own:.3f} and {best:.3f})"
            )
        if problems:
            name = caption_name(row, column)
            sentences.append(f"Caption {name} {', and '.join(problems)}, says the embedder.")
    return sentences


def _cosines(text_vectors: Vectors, image_vectors: Vectors) -> NDArray[np.float64]:
    texts, images = np.asarray(text_vectors, np.float64), np.asarray(image_vectors, np.float64)
    if images.ndim != 2 or len(images) < 2 or texts.shape[1:] != images.shape:
        raise ValueError(
            f"text_vectors must be (k, n, d) and image_vectors (n, d), n at least 2; "
            f"got {texts.shape} and {images.shape}"
        )
    if not (np.isfinite(texts).all() and np.isfinite(images).all()):
        raise ValueError("vectors must be finite")
    cosines: NDArray[np.float64] = np.einsum("rcd,id->rci", texts, images)
    return cosines.round(_DECIMALS)


def _refuse_unusable_groups(run: CcdRun) -> StageReport:
    """Reject accepted groups that cannot be released, with the reason.

    This is the first check of captions that people wrote. A new answer with other captions makes
    another group, which is checked again.
    """
    refused: list[tuple[StoredEntity, Rejection]] = []
    for group in run.find(CaptionGroup, "accepted"):
        for rejection in check_group(group.record(CaptionGroup)).unusable[:1]:
            about = {**rejection.context, "group": group.id, "anchor": group.group}
            refused.append((group, rejection.model_copy(update={"context": about})))
    stage = Stage(_CHECKS_STAGE, _CHECKS_VERSION, run.dataset, {}, label="check groups")
    report = quarantine(run.context, stage, [(group.seq, why) for group, why in refused])
    decisions = [
        NewDecision(group.id, "reject", software(), f"it cannot be released: {why.detail}")
        for group, why in refused
    ]
    decide(run.store, decisions)
    if refused:
        group, why = refused[0]
        run.say(
            f"{len(refused):,} accepted groups cannot be released and are left out until their "
            f"captions are changed, the first {group.id[:12]}: {why.detail}"
        )
    return report


def group_warnings(run: CcdRun, groups: Sequence[CaptionGroup]) -> list[tuple[str, ...]]:
    """Return the warnings about each group as sentences, the most important first."""
    found = []
    for group, preferences in zip(groups, _preferences(run, groups), strict=True):
        check = check_group(group, run.settings.caption_style)
        unusable = (f"{one.detail} It cannot be released so." for one in check.unusable)
        found.append((*unusable, *preferences, *check.warnings))
    return found


def _preferences(run: CcdRun, groups: Sequence[CaptionGroup]) -> Iterator[list[str]]:
    """Yield a sentence for each caption that the embedder assigns to another image, by group.

    Sentences are ordered by row and then image. A lone anchor has no other image.
    """
    pictures: list[ReadableImage] = []
    fine: list[str] = []
    for group in groups:
        if len(group.members) > 1:
            pictures += [stored_picture(run.context, one.picture) for one in group.members]
            fine += [caption for *_, caption in _cells(group)]
    if pictures:
        images = run.embedder.embed_images(pictures)
        texts = run.embedder.embed_texts(fine)
    for group in groups:
        rows, columns = len(group.coarse_captions), len(group.members)
        if columns == 1:
            yield []
            continue
        own, images = images[:columns], images[columns:]
        captions, texts = texts[: rows * columns], texts[rows * columns :]
        yield check_preferences(captions.reshape(rows, columns, -1), own)


STAGE = "apply_group_decisions"
VERSION = "1"
_PAGE = 200
_JUDGED_AGAIN = "its group was judged again"


class _Judged(NamedTuple):
    """A group as it was written, its current version (None: rejected), and who judged it."""

    written: StoredEntity
    standing: StoredEntity | None
    judge: AgentRef


def apply_group_decisions(run: CcdRun) -> None:
    """Update all captions according to the decisions on their groups.

    Groups that cannot be released are rejected first, even if they were accepted.
    """
    run.add(_refuse_unusable_groups(run))
    plan_id = register_plan(run.store, STAGE, VERSION, {"dataset": run.dataset})
    for page in pages(_judged(run), _PAGE):
        for judge, captions, decisions in _changes(run.store, page):
            activity = run.context.activity(plan_id, run.dataset)._replace(agents=(judge,))
            with run.store.write() as connection:
                if captions:
                    store_activity(connection, activity, captions)
                append_decisions(connection, decisions)


def _judged(run: CcdRun) -> Iterator[_Judged]:
    """Return the decided groups as models wrote them."""
    groups = {one.id: one for one in run.find(CaptionGroup)}
    edited = parents_of(run.store, groups, Role.EDITED_FROM)
    standing: dict[str, StoredEntity] = {}  # accepted edits, by their original
    for id_, (original, *_) in edited.items():
        if groups[id_].state == "accepted":
            standing[original] = groups[id_]
    agents = last_agents(run.store, list(groups))
    for group in groups.values():
        if group.id in edited or group.state == "proposed":
            continue
        now = group if group.state == "accepted" else standing.get(group.id)
        if group.id in agents:
            yield _Judged(group, now, agents[now.id if now else group.id])


def _changes(
    store: Store, judged: Sequence[_Judged]
) -> Iterator[tuple[AgentRef, list[NewEntity], list[NewDecision]]]:
    """Yield for each judgement its judge, new captions and decisions."""
    below = fetch_children(store, [one.written.id for one in judged], Role.WRITTEN_IN)
    captions = [caption.id for many in below.values() for caption in many]
    images = parents_of(store, captions, Role.DESCRIBES)
    edits = fetch_children(store, captions, Role.EDITED_FROM)
    for one in judged:
        texts = _texts(one.standing.record(CaptionGroup)) if one.standing else {}
        made: list[NewEntity] = []
        decisions: list[NewDecision] = []
        for caption in below[one.written.id]:
            record, (image_id,) = caption.record(Caption), images[caption.id]
            text = texts.get((image_id, record.position, record.language))
            new = _edit(one.standing, caption, image_id, text)
            earlier = edits[caption.id]
            if new is not None and new.id not in {edit.id for edit in earlier}:
                made.append(new)
            decisions += _decisions(one, caption, text, new, earlier)
        if decisions:
            yield one.judge, made, decisions


def _texts(group: CaptionGroup) -> dict[tuple[str | None, int, str | None], str]:
    """Return the texts of a group by image, position and language; removed texts are empty."""
    found: dict[tuple[str | None, int, str | None], str] = {}
    for member in group.members:
        image_id, second = member.picture.image_id, group.second_language
        for position, text in enumerate(member.captions):
            found[image_id, position, None] = text
        for position, text in enumerate(member.translations):
            found[image_id, position, second] = text
    return {place: text for place, text in found.items() if text}


def _edit(
    group: StoredEntity | None, caption: StoredEntity, image_id: str, text: str | None
) -> NewEntity | None:
    """Return the caption as a person changed it, or None if it is unchanged."""
    record = caption.record(Caption)
    if text is None or group is None or text == record.text:
        return None
    author = group.record(CaptionGroup).author
    return new_entity(
        record.model_copy(update={"text": text, "author": author}),
        caption.dataset,
        parents=[
            (Role.EDITED_FROM, caption.id),
            (Role.DESCRIBES, image_id),
            (Role.WRITTEN_IN, group.id),
        ],
        split=caption.split,
        group=caption.group,
    )


def _decisions(
    judged: _Judged,
    caption: StoredEntity,
    text: str | None,
    new: NewEntity | None,
    earlier: Sequence[StoredEntity],
) -> Iterator[NewDecision]:
    """Return the decisions to make on a caption and its edits; empty if it is up to date."""
    if caption.state == "withdrawn":
        return
    group = judged.standing or judged.written
    reason = f"as its group {group.id[:12]} was judged"
    accepted = {one.id for one in earlier if one.state == "accepted"}
    if new is not None:
        if caption.state != "superseded" or new.id not in accepted:
            yield NewDecision(caption.id, "edit", judged.judge, reason, new.id)
            yield NewDecision(new.id, "accept", judged.judge, reason)
    elif text is not None and caption.state != "accepted":
        yield NewDecision(caption.id, "accept", judged.judge, reason)
    elif text is None and caption.state != "rejected":
        yield NewDecision(caption.id, "reject", judged.judge, reason)
    for one in earlier:
        if one.id in accepted and (new is None or one.id != new.id):
            yield NewDecision(one.id, "reject", judged.judge, _JUDGED_AGAIN)
