"""ReCoS: captions of suitable discriminability, with similar images and confusing captions."""
