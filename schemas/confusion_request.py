"""What a model is told when it is asked for a confusing caption, as lines that a program can read.

A request for t′, the caption of a similar image x′ that keeps to the words of the caption t of x
(ReCoS, section 3.3), has x′ and nothing else in `images`, instructions in `prompt`, and in
`subject` a brief: one statement a line, `Name: value`, in the manner of
`schemas.caption_request`::

    Task: color
    Caption to confuse with: A red car stands left of a blue bicycle.
    Fact: The car is green.
    Fact: The bicycle is blue.

`Task` (a value of `RetrievalTask`) and `Caption to confuse with` (t) stand once, `Fact`, of what is
known to be true of x′, the most important first, any number of times. Values are on one line.

The request's `purpose` is `confuse_caption`; the answer is one JSON object: `{"caption": "…"}`.
"""

from pydantic import Field, ValidationError

from schemas.base import Record
from schemas.caption_request import CAPTION_FIELD, FACT, TASK
from schemas.errors import FormatError
from schemas.retrieval_task import RetrievalTask

CONFUSION_PURPOSE = "confuse_caption"
CONFUSION_FIELD = CAPTION_FIELD

CAPTION_TO_CONFUSE_WITH = "Caption to confuse with"

_ONCE = {TASK: "task", CAPTION_TO_CONFUSE_WITH: "caption"}


class ConfusionBrief(Record):
    """What a confusing caption is to be made of; see the module for the lines.

    Attributes:
        task: what the captions are for.
        caption: t, whose wording is to be kept as far as x′ allows.
        facts: short statements that are true of x′, the most important first.
    """

    task: RetrievalTask
    caption: str = Field(min_length=1)
    facts: tuple[str, ...] = ()

    def text(self) -> str:
        """The brief as lines. White space within a value becomes single spaces."""
        lines = [(TASK, str(self.task)), (CAPTION_TO_CONFUSE_WITH, self.caption)]
        lines += [(FACT, fact) for fact in self.facts]
        return "\n".join(f"{name}: {' '.join(value.split())}" for name, value in lines)

    @classmethod
    def parse(cls, text: str) -> "ConfusionBrief":
        """The brief in such lines.

        Raises:
            FormatError: a line is not of the form, stands twice, or is missing.
        """
        once: dict[str, str] = {}
        facts: list[str] = []
        for number, line in enumerate(text.split("\n"), start=1):
            name, _, value = line.partition(": ")
            if name == FACT:
                facts.append(value)
            elif name in _ONCE and _ONCE[name] not in once:
                once[_ONCE[name]] = value
            else:
                raise FormatError(f"confusion brief, line {number}: cannot read {line!r}")
        try:
            return cls.model_validate({**once, "facts": facts})
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "lines"
            raise FormatError(f"confusion brief: {field}: {first['msg']}") from error
