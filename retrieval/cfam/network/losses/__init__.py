"""The losses of CFAM, one a file; each gives a scalar from similarities or logits."""
