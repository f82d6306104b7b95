"""From a profile's words to a model that answers."""

from typing import assert_never

from models.chat import ChatModel
from schemas.profile import (
    BuiltinCaptioner,
    BuiltinContraster,
    BuiltinDescriber,
    BuiltinRewriter,
    ChatModelSpec,
    OpenAIChat,
    TransformersChat,
    VllmChat,
)


def build_chat_model(spec: ChatModelSpec) -> ChatModel:
    """The model that `spec` describes, loaded and ready; only its own libraries are imported.

    Raises:
        ConfigurationError: something that the model needs from the environment is missing.
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinRewriter():
            from models.builtin.rule_rewriter import RuleRewriter

            return RuleRewriter(spec)
        case BuiltinDescriber():
            from models.builtin.describer import ColourDescriber

            return ColourDescriber(spec)
        case BuiltinCaptioner():
            from models.builtin.captioner import StillsCaptioner

            return StillsCaptioner(spec)
        case BuiltinContraster():
            from models.builtin.contrasts import StillsContraster

            return StillsContraster(spec)
        case OpenAIChat():
            from models.openai_chat import OpenAIChatModel

            return OpenAIChatModel(spec)
        case VllmChat():
            from models.vllm_chat import VllmChatModel

            return VllmChatModel(spec)
        case TransformersChat():
            from models.transformers_chat import TransformersChatModel

            return TransformersChatModel(spec)
        case _:
            assert_never(spec)
