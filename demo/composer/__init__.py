"""The built-in rewriter of descriptions of persons: by rules, without a model."""
