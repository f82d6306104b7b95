"""A plugin of Loupe: the feed of a shop (XML), and what its photographs need."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError, iterparse

import numpy as np

import loupe
from loupe import BadRow, Image, ReadOptions, Rejection, SourceRow


class ShopFeed(loupe.Format):
    """Reads `<product sku="…" photo="…"><title>…</title></product>`, one at a time."""

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[SourceRow | BadRow]:
        """Yield a row for each product; a file that breaks ends with a bad row."""
        bad = {"file": path.name, "field": "product", "raw": ""}
        split, at = (options or ReadOptions()).split_or_test, -1
        try:
            for at, item in enumerate(_products(path)):
                sku, photo, title = item.get("sku"), item.get("photo"), item.findtext("title")
                if sku and photo and title:
                    named = {"identity": sku, "file_path": photo, "split": split}
                    yield SourceRow(index=at, captions=(title,), **named)
                else:
                    why = {"reason": "missing_field", "detail": "wanted sku, photo and title"}
                    yield BadRow(index=at, **why, **bad)
        except ParseError as fault:
            why = {"reason": "malformed_xml", "detail": f"{path.name} breaks: {fault}"}
            yield BadRow(index=at + 1, scope="file", **why, **bad)


def _products(path: Path) -> Iterator[Any]:
    for _, item in iterparse(path):  # noqa: S314 - a feed of one's own
        if item.tag == "product":
            yield item
            item.clear()


@loupe.step(version="1")
def not_bare(image: Image, least: float = 10.0) -> bool | Rejection:
    """Keeps photographs that are not one plain colour."""
    if (found := loupe.images.contrast(image)) < least:
        return Rejection.of("bare", f"The photograph is one colour: contrast {found:.1f}.")
    return True


def no_price(text: str, _: Sequence[str]) -> str | None:
    """Object to prices in a text."""
    return "it states a price" if re.search(r"[$€£]\s?\d", text) else None


def write_titles(rows: Iterator[dict[str, Any]], folder: Path) -> None:
    """Export the first caption of each image, one a line."""
    lines = [f"{row['identity']}\t{row['captions'][0]}" for row in rows]
    (folder / "titles.tsv").write_text("\n".join(lines), encoding="utf-8")


class ColourCheck(loupe.Page):
    """A labelling page of one's own: the usual one, with a question about colours."""

    def page_xml(self) -> str:
        """Return the page."""
        return super().page_xml().replace('value="$heading"', 'value="Are the colours right?"')


class MeanColour:
    """An embedder: the mean colour of an image, and of a text the colours that it names."""

    def __init__(self, spec: Any) -> None:
        self.shift = spec.options.get("shift", 1e-3)

    def embed_images(self, images: Sequence[Any]) -> Any:
        """Return a vector for each image."""
        return [np.asarray(one).reshape(-1, 3).mean(axis=0) + self.shift for one in images]

    def embed_texts(self, texts: Sequence[str]) -> Any:
        """Return a vector for each text."""
        named = [[word in one.lower() for word in ("red", "green", "blue")] for one in texts]
        return np.asarray(named, np.float32) + self.shift
