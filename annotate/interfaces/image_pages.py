"""The pages on which images are reviewed: selections, contrastive images, duplicates."""

from html import escape

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    NO_VERDICT,
    VERDICT,
    Interface,
    Regions,
    Summary,
    TaskContent,
    image_address,
    only_choice,
    picture_tag,
    read_acceptance,
    read_problems,
    shown_image,
    verdict_answer,
)
from db.entities import StoredEntity
from schemas.proposals import Candidate, EditMeasurement, FoundImage
from schemas.recos import DuplicateQuestion, Selection
from schemas.retrieval_task import RetrievalTask

DISTINGUISHES = {
    RetrievalTask.COLOR: "which thing has which colour",
    RetrievalTask.COUNT: "how many things of each kind there are",
    RetrievalTask.LOCATION: "where things are",
    RetrievalTask.FIGURE: "what the people look like",
    RetrievalTask.OBJECT: "which things there are",
    RetrievalTask.ACTION: "what is being done",
    RetrievalTask.SCENE: "what place it is, and when",
    RetrievalTask.OCR: "what the text in the image says",
    RetrievalTask.CELEBRITY: "who it is",
    RetrievalTask.CALCULATION: "the calculation and its result",
    RetrievalTask.CODE: "what the program does and prints",
    RetrievalTask.TRANSLATION: "what the text says in the other language",
}
"""What the captions of each task describe to distinguish their image from others."""


def caption_heading(task: RetrievalTask | None) -> str:
    """Return the heading above a caption of that task, or of none."""
    return "Caption" if task is None else f"Caption for the task {task}: {DISTINGUISHES[task]}"


class ImageVerdict(Interface):
    """An image that is accepted, or rejected with a list of problems."""

    def read_annotation(
        self,
        result: Regions,
        shown: StoredEntity,  # noqa: ARG002 - nothing in it can be changed
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse whether the image fits, and its problems if it does not."""
        match only_choice(result, VERDICT):
            case "accept":
                return read_acceptance(result)
            case "reject":
                return read_problems(result)
            case _:
                return NO_VERDICT

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> Summary:
        """Return the answer in words."""
        verdict = self.labels(VERDICT, [answer.verdict])
        return [("Verdict", verdict), ("Reason", answer.reason)]


class ImageSelection(ImageVerdict):
    """The labelling interface `image-selection`: does an image fit its task (ReCoS)?"""

    name = "image-selection"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one image."""
        selection = entity.record(Selection)
        task = (
            f'<p class="loupe-task"><b>{escape(selection.task)}</b></p>'
            f"<p>Captions for this task distinguish images by {DISTINGUISHES[selection.task]}.</p>"
            f'<p class="loupe-origin">From {escape(selection.source)}, '
            f"{escape(selection.proposed_by)}</p>"
        )
        data = {"image": image_address(images_url, selection.picture.sha256), "task_html": task}
        return TaskContent(data, [], (shown_image(selection.picture),))


class DuplicateCheck(Interface):
    """The labelling interface `duplicate-check`: two possibly identical images side by side.

    People decide if hashes and embeddings are uncertain: two different images are accepted, two
    copies of the same image are rejected.
    """

    name = "duplicate-check"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one pair of images, with its measurements."""
        asked = entity.record(DuplicateQuestion)
        parts = ["Automatic checks are uncertain"]
        if asked.distance is not None:
            parts.append(f"visual distance {asked.distance:.3f}")
        if asked.similarity is not None:
            parts.append(f"similarity of content {asked.similarity:.3f}")
        if asked.mirrored:
            parts.append("one may be mirrored")
        data = {
            "first": image_address(images_url, asked.first.sha256),
            "second": image_address(images_url, asked.second.sha256),
            "measured_html": f"<p>{' · '.join(parts)}</p>",
        }
        return TaskContent(data, [], (shown_image(asked.first), shown_image(asked.second)))

    def read_annotation(
        self,
        result: Regions,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse whether the two images differ."""
        match only_choice(result, VERDICT):
            case "accept":
                return verdict_answer("accept")
            case "reject":
                return verdict_answer("reject", reason="the same image")
            case _:
                return UnclearAnswer(problem="no choice of whether the images differ")

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> Summary:
        """Return the answer in words."""
        return [("These are", self.labels(VERDICT, [answer.verdict]))]


class ImageFilter(ImageVerdict):
    """The labelling interface `image-filter`: a contrastive image beside its anchor.

    The anchor is on the left, the candidate on the right. Below them are the measurements and
    warnings, the wanted difference, the candidate's origin, and the problems to tick. Edits also
    have a map of what changed, which covers the anchor while the pointer is on it.
    """

    name = "image-filter"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one candidate."""
        candidate = entity.record(Candidate)
        pictures = [candidate.anchor, candidate.image]
        if candidate.overlay is not None:
            pictures.append(candidate.overlay)
        data = {
            "anchor": image_address(images_url, candidate.anchor.sha256),
            "candidate": image_address(images_url, candidate.image.sha256),
            "wanted_html": _wanted(candidate),
            "origin_html": f'<p class="loupe-origin">{_origin(candidate)}</p>',
            "measured_html": _measured(candidate, images_url),
        }
        return TaskContent(data, [], tuple(map(shown_image, pictures)))


def _wanted(candidate: Candidate) -> str:
    rows = [
        ("Detail", escape(candidate.detail)),
        ("Wanted", f"<b>{escape(candidate.plan)}</b>"),
        ("Type", f"{escape(candidate.difference)}: {escape(candidate.difference.definition)}"),
        ("Anchor", escape(candidate.caption)),
        ("Candidate", escape(candidate.contrastive_caption)),
    ]
    items = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f'<dl class="loupe-wanted">{items}</dl>'


def _origin(candidate: Candidate) -> str:
    """Return the origin of the candidate in one line; its address is text, not a link."""
    origin = candidate.origin
    if isinstance(origin, FoundImage):
        creator = origin.creator or "an unknown author"
        found = f"Found by {origin.engine}, result {origin.rank}"
        parts = [found, f"licence {origin.licence}", creator, origin.page]
    else:
        parts = [f"Edited by {origin.model}", f"instruction: {origin.instruction}"]
    return " · ".join(map(escape, parts))


def _measured(candidate: Candidate, images_url: str) -> str:
    """Return the map of what changed, the measurements, and the warnings, as HTML.

    The map is included twice: small, and as large as the anchor. The page's style shows the large
    one over the anchor while the pointer is on the small one.
    """
    changes = ""
    if candidate.overlay is not None:
        tag = picture_tag(candidate.overlay, images_url)
        changes = (
            f'<div class="loupe-changes"><div class="loupe-small">{tag}</div>'
            f'<div class="loupe-large"><h4>What changed, marked on the anchor</h4>{tag}</div></div>'
        )
    sentences = measured_in_words(candidate)
    said = f"<p>{escape(' '.join(sentences))}</p>" if sentences else ""
    doubts = "".join(f"<li>{escape(doubt)}</li>" for doubt in candidate.doubts)
    listed = f'<ul class="loupe-doubts">{doubts}</ul>' if doubts else ""
    return f'<div class="loupe-measured">{changes}<div>{listed}{said}</div></div>'


def measured_in_words(candidate: Candidate) -> list[str]:
    """Return the measurements, one sentence each; empty if there are none."""
    sentences = [] if candidate.measurement is None else _edit_in_words(candidate.measurement)
    if candidate.similarity is not None:
        sentences.append(f"Similarity to the anchor: {candidate.similarity:.2f}.")
    return sentences


def _edit_in_words(measurement: EditMeasurement) -> list[str]:
    sentences = [f"{percent(measurement.changed_share)} of the picture changed visibly."]
    if measurement.outside_share is not None:
        known = f" (known from {measurement.region_by})" if measurement.region_by else ""
        sentences.append(
            f"{percent(measurement.outside_share)} of it changed outside the wanted region{known}."
        )
    if measurement.apart_share is not None:
        sentences.append(
            "The wanted region is unknown: check for yourself that the right thing changed. "
            f"{percent(measurement.apart_share)} of the picture changed apart from the largest "
            "changes."
        )
    if measurement.shift is not None:
        better = "better" if measurement.shift > 0 else "no better"
        sentences.append(
            f"The candidate fits the wanted caption {better} than the anchor does "
            f"({measurement.shift:+.2f})."
        )
    return sentences


def percent(share: float) -> str:
    """Return a share in percent: one decimal below 10 %, "less than 0.1 %" below that."""
    percents = 100 * share
    if 0 < percents < 0.1:
        return "less than 0.1 %"
    return f"{percents:.0f} %" if percents >= 10 or not percents else f"{percents:.1f} %"
