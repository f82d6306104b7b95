"""From a profile's words to a model that edits images."""

from typing import assert_never

from models.image_editor import ImageEditor
from schemas.image_edit import BuiltinEditor, ImageEditorSpec, QwenImageEdit


def build_image_editor(spec: ImageEditorSpec) -> ImageEditor:
    """The editor that `spec` describes, loaded and ready; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinEditor():
            from models.builtin.editor.model import StillsEditor

            return StillsEditor(spec)
        case QwenImageEdit():
            from models.qwen_image_edit import QwenImageEditor

            return QwenImageEditor(spec)
        case _:
            assert_never(spec)
