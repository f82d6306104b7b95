"""The files of a release: manifest, rows, Parquet, signature, and the limits of reading them."""
