"""CCD: images that differ in one labelled detail, with captions that tell them apart."""
