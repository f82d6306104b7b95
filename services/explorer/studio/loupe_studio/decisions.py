"""The action of the page that turns what is shown or selected into decisions of the lead."""

from typing import Any

from lightly_studio.plugins.base_operator import BaseOperator, OperatorResult
from lightly_studio.plugins.operator_context import ExecutionContext, OperatorScope
from lightly_studio.plugins.parameter import BaseParameter, StringParameter
from lightly_studio.resolvers.grid_filter_sample_ids import build_sample_ids_query
from lightly_studio.resolvers.image_filter import ImageFilter
from lightly_studio.resolvers.sample_resolver.sample_filter import SampleFilter
from sqlmodel import Session

from loupe_studio.door import ask


class Decide(BaseOperator):
    """Asks Loupe what would follow, and decides once that is confirmed."""

    @property
    def name(self) -> str:
        """What the menu says."""
        return "Decide in Loupe"

    @property
    def description(self) -> str:
        """What the form says."""
        return (
            "Decides on the selected images, or on all that the filters show. Nothing changes "
            "before the sentence of the first answer is typed into the field confirm."
        )

    @property
    def parameters(self) -> list[BaseParameter]:
        """The fields of the form."""
        return [
            StringParameter(
                name="action",
                default="reject",
                description="reject, reopen, withdraw, gold, or send to QUEUE",
            ),
            StringParameter(name="reason", description="why, in your words", default=""),
            StringParameter(
                name="ground",
                default="",
                required=False,
                description="of a withdrawal: privacy, copyright, law, consent, quality or other",
            ),
            StringParameter(
                name="confirm",
                default="",
                required=False,
                description="empty at first; then what the answer asks you to type",
            ),
        ]

    @property
    def supported_scopes(self) -> list[OperatorScope]:
        """Where the menu shows it."""
        return [OperatorScope.ROOT, OperatorScope.IMAGE]

    def execute(
        self, *, session: Session, context: ExecutionContext, parameters: dict[str, Any]
    ) -> OperatorResult:
        """Send the ids of the images to Loupe, which answers in a sentence."""
        chosen = context.context_filter
        if isinstance(chosen, SampleFilter):
            chosen = ImageFilter(sample_filter=chosen)
        if chosen is None:
            chosen = ImageFilter()
        if not isinstance(chosen, ImageFilter):
            return OperatorResult(success=False, message="Select images; these are none.")
        query = build_sample_ids_query(session, context.collection_id, chosen)
        items = sorted(one.hex for one in session.exec(query))
        answer = ask("decide", {**parameters, "items": items})
        return OperatorResult(success=answer["success"], message=answer["message"])
