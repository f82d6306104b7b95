"""The validation loop of captions (ReCoS, section 3.2), without a model, an embedder or a store.

Every caption is held against the images that it could be mistaken for; what fails is written anew,
told which way it failed, at most `DiscriminabilitySettings.rounds` times; what still fails goes to
people. `history` decides what becomes of one caption, `loop` drives many with callables for
the model and the embedder, `summary` says what came of them.
"""
