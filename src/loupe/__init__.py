"""Loupe: builds fine-grained image-text retrieval datasets that can be trusted.

The packages lie at the top of the repository and are linked here, so that everything is imported as
`loupe.…` and no name collides with anybody's `models`, `db` or `prompts`.
"""
