"""Whether an instruction can be given to an editing model (CCD, step 2)."""

from schemas.records import Rejection
from schemas.strategy_request import MOST_INSTRUCTION_WORDS

STAGE = "edit_image"


def unfit_for_editing(
    instruction: str, most_words: int = MOST_INSTRUCTION_WORDS
) -> Rejection | None:
    """Why no image is edited after `instruction`; None where one can be.

    An instruction of more than `most_words` words is dropped; its strategy may still be searched.
    """
    words = len(instruction.split())
    if words <= most_words:
        return None
    return Rejection(
        stage=STAGE,
        reason="long_instruction",
        detail=f"The editing instruction has {words} words; wanted {most_words} at most.",
        context={"instruction": instruction},
    )
