"""What a contrastive benchmark holds, counted row by row: table 1 and figure 3 of CCD."""

import re
from collections import Counter

from release.publishable import published_name
from schemas.release import (
    ContrastStatistics,
    DifferenceStatistics,
    LeftOutGroups,
    NearestStatistics,
    RepeatStatistics,
)
from schemas.taxonomy import DifferenceType

_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


def tokens_of(text: str) -> int:
    """How many words and punctuation marks a caption has."""
    return len(_TOKEN.findall(text))


class ContrastCounter:
    """Counts images and captions of a contrastive benchmark."""

    def __init__(self) -> None:
        self._images = 0
        self._ways: Counter[tuple[DifferenceType, str | None]] = Counter()
        self._per_image: set[int] = set()
        self._captions: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._translations: Counter[str] = Counter()

    def add(
        self,
        contrast: tuple[DifferenceType, str | None] | None,
        captions: list[str],
        coarse: list[str],
        languages: list[str],
    ) -> None:
        """Counts an image: its type and way where it is no anchor, and its captions."""
        self._images += 1
        if contrast is not None:
            self._ways[contrast] += 1
        self._per_image.add(len(captions))
        for kind, texts in (("fine", captions), ("coarse", coarse)):
            self._captions[kind] += len(texts)
            self._tokens[kind] += sum(map(tokens_of, texts))
        self._translations.update(languages)

    def result(
        self,
        without_captions: int = 0,
        without_anchor: int = 0,
        left_out: LeftOutGroups | None = None,
        nearest: NearestStatistics | None = None,
        editors: tuple[tuple[str, int], ...] = (),
        repeats: RepeatStatistics | None = None,
    ) -> ContrastStatistics:
        """Everything counted so far, with what is known from elsewhere."""
        contrastive = self._ways.total()
        return ContrastStatistics(
            anchors=self._images - contrastive,
            contrastive=contrastive,
            captions_per_image=next(iter(self._per_image)) if len(self._per_image) == 1 else None,
            coarse_captions=self._captions["coarse"],
            tokens=self._mean("fine") or 0.0,
            coarse_tokens=self._mean("coarse"),
            translations=tuple(sorted(self._translations.items())),
            differences=tuple(map(self._difference, DifferenceType)),
            without_captions=without_captions,
            without_anchor=without_anchor,
            left_out=left_out,
            nearest=nearest and _published(nearest),
            editors=editors,
            repeats=repeats,
        )

    def _mean(self, kind: str) -> float | None:
        captions = self._captions[kind]
        return round(self._tokens[kind] / captions, 2) if captions else None

    def _difference(self, difference: DifferenceType) -> DifferenceStatistics:
        methods = {
            method: count for (kind, method), count in self._ways.items() if kind is difference
        }
        return DifferenceStatistics(
            difference=difference,
            images=sum(methods.values()),
            found=methods.get("search", 0),
            edited=methods.get("edit", 0),
        )


def _published(nearest: NearestStatistics) -> NearestStatistics:
    return nearest.model_copy(update={"embedder": published_name(nearest.embedder)})
