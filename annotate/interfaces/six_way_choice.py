"""The page of a forced-choice test: a caption and six images, or an image and six captions.

Neither the page nor its data reveal the correct one: a digest of the test's id determines the order
of the options, and the answer is not sent.
"""

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    Interface,
    Regions,
    Summary,
    TaskContent,
    only_choice,
    picture_tag,
    shown_image,
)
from annotate.interfaces.text_pages import marked_text
from db.entities import StoredEntity
from schemas.base import digest_of
from schemas.quality import OPTIONS, ChoiceTest

PICK = "pick"
_NUMBERS = tuple(str(number) for number in range(1, OPTIONS + 1))


def option_order(test_id: str) -> list[int]:
    """Return the option at each of the six positions, the same for all annotators."""
    return sorted(
        range(OPTIONS), key=lambda option: digest_of("option-order", test_id, str(option))
    )


class SixWayChoice(Interface):
    """The labelling interface `six-way-choice`.

    Answers are independent: if two testers differ, that is not a conflict to settle.
    """

    name = "six-way-choice"
    independent = True

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one test."""
        test = entity.record(ChoiceTest)
        order = option_order(entity.id)
        if test.direction == "caption-to-image":
            images = [test.images[option] for option in order]
            question = f'<div class="loupe-caption">{marked_text(test.captions[0])}</div>'
            options = [picture_tag(image, images_url) for image in images]
        else:
            images = list(test.images)
            question = picture_tag(test.images[0], images_url)
            options = [marked_text(test.captions[option]) for option in order]
        items = "".join(
            f'<li><span class="loupe-number">{number}</span>{option}</li>'
            for number, option in zip(_NUMBERS, options, strict=True)
        )
        data = {
            "question_html": f'<div class="loupe-question-{test.direction}">{question}</div>',
            "options_html": f'<ol class="loupe-options loupe-{test.direction}">{items}</ol>',
        }
        return TaskContent(data, [], tuple(map(shown_image, images)))

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse the chosen position; the test is accepted if it has the correct option."""
        picked = only_choice(result, PICK)
        if picked not in _NUMBERS:
            return UnclearAnswer(problem="none of the six was chosen")
        right = _NUMBERS[option_order(shown.id).index(shown.record(ChoiceTest).answer)]
        choices = {PICK: (picked,)}
        if picked == right:
            return ReviewAnswer(verdict="accept", choices=choices)
        reason = f"number {picked} was chosen; the correct one was {right}"
        return ReviewAnswer(verdict="reject", choices=choices, reason=reason)

    def same(
        self,
        one: ReviewAnswer,
        other: ReviewAnswer,
        text_agreement: float,  # noqa: ARG002 - there is no text
    ) -> bool:
        """Return whether both chose the same option."""
        return one.choices == other.choices

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the number is on the page
    ) -> Summary:
        """Return the answer, without saying whether it is right."""
        return [("Chosen", number) for number in answer.choices[PICK]]
