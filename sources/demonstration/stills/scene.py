"""A scene as a plain value: what is there, where, in which style, before anything is drawn."""

from pydantic import Field

from models.builtin.drawing.figures import Figure
from models.builtin.drawing.vocabulary import Place, Style
from schemas.base import Record
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.stills.vocabulary import Relation, Size


class Group(Record):
    """Things of one kind, colour and size."""

    kind: str
    colour: str
    count: int = Field(default=1, ge=1, le=6)
    size: Size = Size.MEDIUM


class Scene(Record):
    """What a still shows. `relation` is how the first group lies to the second.

    `sign` is the word on a signboard, None where there is no sign.
    """

    task: RetrievalTask
    place: Place
    style: Style = Style.FLAT
    groups: tuple[Group, ...] = ()
    figure: Figure | None = None
    relation: Relation | None = None
    sign: str | None = None

    def key(self) -> str:
        """What can be said of the scene: equal for scenes that the same words tell of."""
        groups = sorted(group.model_dump_json() for group in self.groups)
        if self.relation is not None:
            groups = [group.model_dump_json() for group in self.groups]
        return self.model_dump_json(exclude={"task", "groups"}) + "".join(groups)
