"""UFine3C: an evaluation set with captions rewritten in other styles (UFineBench, section 3.3)."""
