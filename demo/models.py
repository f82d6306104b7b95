"""The models of the provider `builtin`: a rewriter of descriptions and an embedder of people."""

from typing import Any

from loupe.demo.composer.rewriter import RuleRewriter
from loupe.demo.embedder import ColourLexiconEmbedder
from loupe.schemas.profile import BuiltinRewriter


def builtin(spec: Any) -> RuleRewriter | ColourLexiconEmbedder:
    """Return the model that a specification of this provider describes."""
    if isinstance(spec, BuiltinRewriter):
        return RuleRewriter(spec)
    return ColourLexiconEmbedder(spec)
