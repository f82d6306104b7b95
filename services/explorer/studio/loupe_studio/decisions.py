"""The action of the page that turns what is shown or selected into decisions of the lead."""

from typing import Any

from lightly_studio.plugins.base_operator import BaseOperator, OperatorResult
from lightly_studio.plugins.operator_context import ExecutionContext, OperatorScope
from lightly_studio.plugins.parameter import BaseParameter, StringParameter
from lightly_studio.resolvers import tag_resolver
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
            "Decides on the images with a tag, or on all that the filters show. Nothing changes "
            "before what the first answer asks for is typed into the last field."
        )

    @property
    def parameters(self) -> list[BaseParameter]:
        """The fields of the form."""
        return [
            StringParameter(
                name="action",
                default="reject",
                description="reject, reopen, withdraw, send to QUEUE, or gold QUEUE",
            ),
            StringParameter(name="reason", default="", description="in your words"),
            StringParameter(
                name="tag",
                default="",
                required=False,
                description="only images with this tag",
            ),
            StringParameter(
                name="caption",
                default="",
                required=False,
                description="reject or reopen only captions with these words, not their images",
            ),
            StringParameter(
                name="ground",
                default="",
                required=False,
                description="of a withdrawal, such as privacy or quality",
            ),
            StringParameter(
                name="confirm",
                default="",
                required=False,
                description="what the first answer asks for",
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
            return OperatorResult(success=False, message="Open the images; these are none.")
        if name := parameters.pop("tag", ""):
            tag = tag_resolver.get_by_name(
                session=session, tag_name=name, collection_id=context.collection_id
            )
            if tag is None:
                return OperatorResult(success=False, message=f"There is no tag {name!r}.")
            chosen = ImageFilter(sample_filter=SampleFilter(tag_ids=[tag.tag_id]))
        query = build_sample_ids_query(session, context.collection_id, chosen)
        items = sorted(one.hex for one in session.exec(query))
        answer = ask("decide", {**parameters, "items": items})
        return OperatorResult(success=answer["success"], message=answer["message"])
