"""Reading public annotation files: every record validated, every image proven to be one."""
