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

from typing import ClassVar

from pydantic import Field

from schemas.briefs import Brief
from schemas.caption_request import CAPTION_FIELD, FACT, TASK
from schemas.retrieval_task import RetrievalTask

CONFUSION_PURPOSE = "confuse_caption"
CONFUSION_FIELD = CAPTION_FIELD

CAPTION_TO_CONFUSE_WITH = "Caption to confuse with"


class ConfusionBrief(Brief):
    """What a confusing caption is to be made of; see the module for the lines.

    Attributes:
        task: what the captions are for.
        caption: t, whose wording is to be kept as far as x′ allows.
        facts: short statements that are true of x′, the most important first.
    """

    called = "confusion brief"
    lines: ClassVar = {TASK: "task", CAPTION_TO_CONFUSE_WITH: "caption", FACT: "facts"}

    task: RetrievalTask
    caption: str = Field(min_length=1)
    facts: tuple[str, ...] = ()
