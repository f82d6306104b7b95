"""The provenance store (SQL), the blob store (fsspec), and questions asked of both."""
