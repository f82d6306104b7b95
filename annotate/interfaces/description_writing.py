"""The page on which a person is described in detail (UFineBench, section 3.2)."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.backend import OPENED_WITH
from annotate.interfaces.page import (
    VERDICT,
    Interface,
    Regions,
    Summary,
    TaskContent,
    choice_region,
    image_address,
    one_line,
    only_choice,
    read_rejection,
    resource,
    script_frame,
    text_fields_script,
    values,
    verdict_answer,
)
from annotate.interfaces.text_pages import TEXT
from db.entities import StoredEntity
from db.reviews import ShownImage
from schemas.base import EntityRecord
from schemas.records import Caption, Image

# The words by which a description mentions an attribute. They remind writers of what is missing;
# they do not check the truth. The page searches for the same words while people write.

ATTRIBUTES: Mapping[str, str] = tomllib.loads(resource("description_attributes.toml"))
"""The attributes in the order of a description, each with its words."""


def attribute_pattern(attribute: str) -> str:
    """Return the regular expression for an attribute's words, for Python and JavaScript."""
    words = re.split(r"\s(?![^\[]*\])", ATTRIBUTES[attribute].strip())
    return rf"\b(?:{'|'.join(words)})\b"


def missing_attributes(text: str) -> Sequence[str]:
    """Return the attributes that a description does not mention, in the order of `ATTRIBUTES`."""
    return [attribute for attribute in ATTRIBUTES if not _compiled(attribute).search(text)]


def count_words(text: str) -> int:
    """Count the words of a text: strings between white space with a letter or a digit."""
    return sum(any(character.isalnum() for character in word) for word in text.split())


@cache
def _compiled(attribute: str) -> re.Pattern[str]:
    return re.compile(attribute_pattern(attribute), re.IGNORECASE)


# While the annotator writes, a frame below the text counts its words and ticks the attributes that
# it mentions. Missing ones are also listed as a remark when the answer is read.

DRAFT, DRAFT_NOTE = "draft", "draft_note"
"""The variables of the draft and of the note on its author; empty without a draft."""

AIM_WORDS = 80
"""The mean length of UFine6926's descriptions."""

LEAST_WORDS = 20
"""The minimum length of a description; all of UFine6926's are longer."""


class DescriptionWriting(Interface):
    """The labelling interface `description-writing`; its answers are independent."""

    name = "description-writing"
    independent = True

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML, with the frame that counts words."""
        patterns = [[attribute, attribute_pattern(attribute)] for attribute in ATTRIBUTES]
        settings = json.dumps({"aim": AIM_WORDS, "attributes": patterns})
        document = resource("description_counter.html").replace('"SETTINGS"', settings)
        frame = document.replace('"FIELDS"', text_fields_script())
        return super().config.replace("COUNTER", script_frame("loupe-counter", frame))

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one image."""
        image = entity.record(Image)
        data = {"image": image_address(images_url, image.sha256), DRAFT: "", DRAFT_NOTE: ""}
        # Label Studio requires a choice before a page can be submitted, whatever the text is.
        described = choice_region(VERDICT, "image", "accept")
        shown = ShownImage(image.sha256, image.media_type, entity.id)
        return TaskContent(data, [{"model_version": "loupe", "result": [described]}], (shown,))

    def with_draft(self, content: TaskContent, draft: StoredEntity) -> TaskContent:
        """Return the page with the draft in the text field and its author above it."""
        caption = draft.record(Caption)
        note = (
            f"Draft by the program {caption.author}: check every word, correct what is wrong, "
            f"add what is missing, or delete it and write your own."
        )
        opening = {DRAFT: caption.text, DRAFT_NOTE: note, OPENED_WITH: draft.id}
        return content._replace(data={**content.data, **opening})

    def read_annotation(
        self,
        result: Regions,
        shown: StoredEntity,  # noqa: ARG002 - the text is independent of the entity
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse the description, or why the image cannot be described."""
        if only_choice(result, VERDICT) == "reject":
            return read_rejection(result)
        text = one_line(" ".join(values(result, TEXT, "text")))
        words = count_words(text)
        if words < LEAST_WORDS:
            problem = f"a description must have at least {LEAST_WORDS} words; this one has {words}"
            return UnclearAnswer(problem=problem)
        missing = missing_attributes(text)
        remark = f"does not mention: {', '.join(missing)}" if missing else ""
        return verdict_answer("accept", texts={TEXT: text}, remark=remark)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the description as a caption of the image."""
        if answer.verdict == "reject":
            return ()
        source = shown.record(Image).source
        return (Caption(source=source, text=answer.texts[TEXT], position=0, author=author),)

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the image is on the page
    ) -> Summary:
        """Return the answer in words."""
        text = answer.texts.get(TEXT, "")
        return [
            ("Description", text),
            ("Words", str(count_words(text)) if text else ""),
            ("Not mentioned", ", ".join(missing_attributes(text)) if text else ""),
            ("Cannot be described", answer.reason),
        ]
