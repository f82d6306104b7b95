"""A drawn world that models can read without vision: every still contains its scene as code.

`scene` has the vocabulary, the scene as a value, and the strip of small squares along the lower
edge that encodes it; `drawing` draws a scene; `text` reads and writes statements about one. The
built-in embedder, captioner, contraster and editor read the strip. They know next to nothing about
photographs and other drawings.
"""
