"""The order of versions of releases."""


def version_numbers(version: str) -> tuple[int, int, int]:
    """The numbers of a version such as 1.10.0, by which versions are ordered."""
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch
