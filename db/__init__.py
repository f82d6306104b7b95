"""The provenance store (SQL), the blob store (fsspec), and queries on both."""
