"""Which commit of an editor is meant: looked up once for each dataset, then what was found holds.

So provenance names it, a run without an edit asks nobody, and edits of one dataset do not change
their model because somebody moved a branch.
"""

from typing import assert_never

from db.entities import find
from flows.context import RunContext
from flows.single import store_entity
from schemas.image_edit import BuiltinEditor, ImageEditorSpec, QwenImageEdit
from schemas.tracked_video import StageSettings

STAGE = "pin_editor"
VERSION = "1"


def known_pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec | None:
    """`spec` with the commit that is known to be meant in this dataset; None where none is."""
    if isinstance(spec, BuiltinEditor):
        return spec
    for one in find(context.store, dataset, StageSettings.kind):
        record = one.record(StageSettings)
        if record.stage == STAGE and record.values["model"] == spec.ref.model_dump():
            return spec.model_copy(update={"revision": record.values["commit"]})
    return None


def pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec:
    """`spec` with the commit that is meant in this dataset, looked up where it is not known.

    Raises:
        ModelError: the model's repository cannot tell.
    """
    if (known := known_pin(context, dataset, spec)) is not None:
        return known
    match spec:
        case BuiltinEditor():
            return spec
        case QwenImageEdit():
            from models.qwen_image_edit import pinned_editor

            found = pinned_editor(spec)
        case _:
            assert_never(spec)
    values = {"model": spec.ref.model_dump(), "commit": found.revision}
    store_entity(context, StageSettings(stage=STAGE, version=VERSION, values=values), dataset)
    return found
