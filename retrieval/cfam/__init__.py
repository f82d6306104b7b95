"""CFAM (UFineBench, section 4): cross-modal shared granularity decoding with hard matching."""
