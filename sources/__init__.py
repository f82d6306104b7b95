"""Read public annotation files; every record is validated and every image checked."""
