"""A drawn world that models can read without seeing: every still carries its own scene as code.

`scene` has the vocabulary, the scene as a value, and the strip of small squares along the lower
edge that codes it; `drawing` draws a scene; `text` reads and writes what can be said of one. The
built-in embedder, captioner, contraster and editor read the strip. They know next to nothing of
photographs, and of drawings from elsewhere.
"""
