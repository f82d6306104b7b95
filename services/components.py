"""Names of the components of `loupe up`, with few imports: the command line loads this module."""

from enum import StrEnum


class Component(StrEnum):
    """A component that `loupe up` can omit."""

    PREFECT = "prefect"
    LABEL_STUDIO = "label-studio"
    BLOBS = "blobs"
    WATCHER = "watcher"
