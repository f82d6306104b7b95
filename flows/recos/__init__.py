"""ReCoS: captions that are neither too easy nor too hard, and what they are confused with."""
