"""CCD: images that differ in one labelled detail, with captions that distinguish them."""
