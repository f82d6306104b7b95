"""Which images and texts are alike: by bytes, perceptual hash, spectrum and embedding."""
