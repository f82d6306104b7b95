"""Searches of all kinds for tests: services on loopback, and a folder of coloured images."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loupe.models.embedding import Vectors
from loupe.models.search.folder import FolderImage, FolderImageSearch
from loupe.models.search.google import GoogleImageSearch
from loupe.models.search.openverse import OpenverseImageSearch
from loupe.models.search.web import Sleep
from loupe.schemas.image_search import FolderSearch, GoogleSearch, OpenverseSearch
from loupe.schemas.records import Attribution
from tests.servers.search_server import API_KEY, ENGINE, SearchServer

COLOURS = ("red", "green", "blue")


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables that a profile for Google needs."""
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE_ID", ENGINE)
    monkeypatch.setenv("GOOGLE_SEARCH_API_KEY", API_KEY)


def google_spec(base_url: str, **fields: Any) -> GoogleSearch:
    fields = {"timeout_seconds": 5, "max_retries": 2, "base_url": base_url, **fields}
    return GoogleSearch(provider="google", **fields)


def no_pause(_: float) -> None:
    """A pause that takes no time."""


def google(server: SearchServer, *, sleep: Sleep = no_pause, **fields: Any) -> GoogleImageSearch:
    assert os.environ["GOOGLE_SEARCH_API_KEY"]
    return GoogleImageSearch(google_spec(**{"base_url": server.base_url, **fields}), sleep=sleep)


def openverse(
    server: SearchServer, *, sleep: Sleep = no_pause, **fields: Any
) -> OpenverseImageSearch:
    fields = {"timeout_seconds": 5, "max_retries": 2, "base_url": server.base_url, **fields}
    return OpenverseImageSearch(OpenverseSearch(provider="openverse", **fields), sleep=sleep)


class ColourWords:
    """Embeds a text by the counts of three colour names."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        rows = [[text.count(colour) for colour in COLOURS] for text in texts]
        counts = np.array(rows, np.float32).reshape(-1, len(COLOURS))
        lengths = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
        return np.asarray(counts / lengths, np.float32)


def folder_image(name: str, licence: str = "CC BY 4.0", **fields: Any) -> FolderImage:
    return FolderImage(
        file_path=f"stills/{name}.png",
        sha256=name.ljust(64, "0"),
        media_type="image/png",
        width_px=64,
        height_px=48,
        attribution=Attribution(licence=licence, **fields),
    )


def folder(images: int = 12) -> FolderImageSearch:
    """Return a search over images that are red, green and blue in turn."""
    listed = [folder_image(f"{COLOURS[n % 3]} {n}") for n in range(images)]
    vectors = np.eye(3, dtype=np.float32)[[n % 3 for n in range(images)]]
    return FolderImageSearch(FolderSearch(folder="anywhere"), listed, vectors, ColourWords())
