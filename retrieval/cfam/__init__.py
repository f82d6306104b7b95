"""CFAM (UFineBench, section 5): cross-modal shared granularity decoding with hard matching."""
