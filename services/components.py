"""The names of what `loupe up` starts; imports next to nothing: the command line starts with it."""

from enum import StrEnum


class Component(StrEnum):
    """What can be left out of `loupe up`."""

    PREFECT = "prefect"
    LABEL_STUDIO = "label-studio"
    BLOBS = "blobs"
    WATCHER = "watcher"
