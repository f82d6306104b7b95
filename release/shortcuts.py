"""The shortcut certificate of a release: the scores of opponents that cannot see its content.

A contrastive release asks for differences between an image and its edits, so nothing but their
content may say which is the original. If the wording of a caption says which collection it is
about, the gallery shrinks to that collection; if files say which images have captions, it shrinks
to the answers.

Groups and items are drawn by digests, so that the same release gives the same certificate. Their
number, and the part of an image that is looked at, bound the time that this takes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from loupe.release.format.row_files import (
    ListedRelease,
    built_rows,
    chosen_split,
)
from loupe.release.format.rows import SPLITS, ReleaseRow
from loupe.retrieval.shortcuts.features import (
    Features,
    Looks,
    looks_of,
    name_features,
    size_features,
    text_features,
)
from loupe.retrieval.shortcuts.opponents import (
    Evidence,
    corrected,
    find_wanted,
    match_pairs,
    tell_class,
)
from loupe.schemas.base import sha256_of
from loupe.schemas.decoders import decode_limited
from loupe.schemas.errors import UsageError
from loupe.schemas.processes import ordered_map
from loupe.schemas.shortcuts import (
    FEWEST_GROUPS,
    MARGIN,
    BlindResult,
    Percent,
    ShortcutCertificate,
    ShortcutQuestion,
    TooFew,
)
from loupe.schemas.validation import nearest_hint

MOST_GROUPS = 250
"""Groups, or images of a kind, that are drawn; an image takes about 50 ms."""
_MOST_IDENTITIES = 1_000
_MOST_CAPTIONS = 4  # of an image, for the source of a caption
_WITH, _WITHOUT = "with captions", "without"

_Rows = Callable[[], Iterable[ReleaseRow]]


def certify(
    folder: Path, split: str | None = None, *, margin: Percent = MARGIN
) -> ShortcutCertificate:
    """Return what blind opponents reach on one split of a release.

    Raises:
        IntegrityError: the release was changed.
        UsageError: `folder` is no release, or has no such split.
    """
    release = ListedRelease(folder)
    chosen = chosen_split(release.manifest, split)
    stated = release.manifest.shortcuts

    def look(path: str) -> Looks:
        release.check([path])  # it may come from anyone
        return decode_limited(looks_of, (folder / path).read_bytes())

    found = _Opponents(lambda: release.rows(ReleaseRow.of, chosen), look)
    return ShortcutCertificate(
        split=chosen,
        margin=margin,
        groups=MOST_GROUPS,
        results=found.results(),
        too_few=found.too_few,
        accepted=stated.accepted if stated else (),
    )


def certify_build(
    folder: Path,
    *,
    accepted: Sequence[str],
    refuse: bool = True,
    on_first: Callable[[], object] = lambda: None,
) -> ShortcutCertificate | None:
    """Return the certificate of a release that is being built; None if there is nothing to ask.

    It is of the test split, or else of the validation or training split.

    Args:
        folder: the unfinished release, with its rows and images.
        accepted: the shortcuts that the build accepts, by question or by name.
        refuse: whether to refuse others. A withdrawal does not: it must not wait for them.
        on_first: called before the opponents of a question are asked.

    Raises:
        UsageError: an opponent is better than chance by more than the margin, and the build does
            not accept that.
    """
    split = next(one for one in reversed(SPLITS) if any((folder / "data").glob(f"{one}-*")))
    found = _Opponents(
        partial(built_rows, folder, split),
        lambda path: looks_of((folder / path).read_bytes()),
        on_first,
    )
    results = found.results()
    if not (results or found.too_few):
        return None
    certificate = ShortcutCertificate(
        split=split,
        groups=MOST_GROUPS,
        results=results,
        too_few=found.too_few,
        accepted=tuple(accepted),
    )
    if refuse:
        _refuse(certificate)
    return certificate


def _refuse(certificate: ShortcutCertificate) -> None:
    unaccepted = certificate.unaccepted
    if not unaccepted:
        return
    worst = max(unaccepted, key=lambda one: one.right - one.chance)
    names = ", ".join(f'"{one.name}"' for one in unaccepted)
    known = [one.name for one in certificate.results]
    hints = [nearest_hint(one, known) for one in certificate.accepted if not _is_of(one, known)]
    hint = f" ({'; '.join(hints)})" if hints else ""
    raise UsageError(
        f"nothing is released, because it can be scored without its content: "
        f"{shortcut_sentence(worst)}; remove what gives it away, or accept it in the build file or "
        f"in releases.toml: accepted_shortcuts = [{names}]{hint}"
    )


def _is_of(accepted: str, known: Sequence[str]) -> bool:
    return any(name == accepted or name.startswith(f"{accepted} by ") for name in known)


_ASKED: dict[ShortcutQuestion, str] = {
    "original image": "the original image of its group is found",
    "original captions": "the captions of the original are found in their group",
    "matching pair": "a caption is matched with the right one of two images",
    "source of a caption": "the source that a caption is about is recognised",
    "image with captions": "images with captions are recognised among those without",
}


def shortcut_sentence(one: BlindResult) -> str:
    """Return a result as a sentence, without a full stop."""
    used = f" (mostly by {', '.join(one.used)})" if one.used else ""
    return (
        f"{_ASKED[one.question]} in {one.right:.1f} % by {one.opponent} alone{used}, "
        f"by chance in {one.chance:.1f} %"
    )


class _Drawn:
    """At most so many of the keys that it is given, whatever their order: by their digests."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._keys: dict[str, str] = {}

    def add(self, key: str) -> None:
        """Add a key; equal ones count once."""
        self._keys[sha256_of(key.encode())] = key
        if len(self._keys) >= 2 * self._most + FEWEST_GROUPS:
            self._cut()

    def keys(self) -> set[str]:
        """The keys that are drawn."""
        self._cut()
        return set(self._keys.values())

    def _cut(self) -> None:
        self._keys = dict(sorted(self._keys.items())[: self._most])


class _Opponents:
    """Asks all opponents about the rows of one split; `look` returns what they use of an image."""

    def __init__(
        self,
        rows: _Rows,
        look: Callable[[str], Looks],
        on_first: Callable[[], object] = lambda: None,
    ) -> None:
        self._rows = rows
        self._look = look
        self._on_first = on_first
        self.too_few: tuple[TooFew, ...] = ()

    def results(self) -> tuple[BlindResult, ...]:
        """What opponents reach, with p-values for all of them together."""
        groups = _Drawn(MOST_GROUPS)
        identities = _Drawn(_MOST_IDENTITIES)
        images = {kind: _Drawn(MOST_GROUPS) for kind in (_WITH, _WITHOUT)}
        sources, tasks, contrasts = set[str](), False, False
        for row in self._rows():
            tasks |= row.task is not None
            if row.contrast is not None:
                contrasts = True
                groups.add(row.contrast.anchor)
            if row.captions:
                sources.add(row.source)
                identities.add(str(row.id))
            images[_WITH if row.captions else _WITHOUT].add(row.file_path)
        found: list[BlindResult] = []
        if contrasts:
            found += self._of_groups(groups.keys())
        elif len(sources) > 1 and not tasks:  # the content of a task tells where it is from
            found += self._of_sources(identities.keys())
        if all(one.keys() for one in images.values()):
            found += self._of_candidates(images[_WITH].keys() | images[_WITHOUT].keys())
        return corrected(found)

    def _tell(self, groups: int, *questions: ShortcutQuestion) -> None:
        found = [TooFew(question=question, groups=groups) for question in questions]
        self.too_few = (*self.too_few, *found)

    def _of_groups(self, anchors: set[str]) -> Iterator[BlindResult]:
        """Yield how often each opponent finds the original of a contrastive group."""
        if len(anchors) < FEWEST_GROUPS:
            self._tell(len(anchors), "original image", "original captions", "matching pair")
            return
        self._on_first()
        rows = [row for row in self._rows() if _group_of(row) in anchors]
        groups = [_group_of(row) for row in rows]
        is_original = np.array([row.contrast is None for row in rows])
        captions = [" ".join(caption.text for caption in row.captions) for row in rows]
        pictures, texts = list(self._image_evidence(rows)), list(_text_evidence(captions))
        asked = [partial(find_wanted, "original image", one) for one in pictures]
        asked += [partial(find_wanted, "original captions", one) for one in texts]
        asked += [partial(match_pairs, pictures[0], one) for one in texts]
        for ask in asked:
            if found := ask(groups, is_original):
                yield found

    def _image_evidence(self, rows: Sequence[ReleaseRow]) -> Iterator[Evidence]:
        paths = [row.file_path for row in rows]
        looks = list(ordered_map(self._look, paths))
        yield Evidence.of("pixel statistics", [one.pixels for one in looks])
        yield Evidence.of("file", [one.file for one in looks])
        yield Evidence.of("size", [size_features(row.width_px, row.height_px) for row in rows])
        yield Evidence.of("file name", [name_features(path) for path in paths])
        yield Evidence.of("position", _places(rows))
        yield Evidence.of("colours of the image", [one.colours for one in looks])

    def _of_sources(self, identities: set[str]) -> Iterator[BlindResult]:
        """Yield how often the wording of a caption tells the source of its image."""
        rows = [row for row in self._rows() if row.captions and str(row.id) in identities]
        people: dict[str, set[int]] = {}
        for row in rows:
            people.setdefault(row.source, set()).add(row.id)
        large = {source for source, ids in people.items() if len(ids) >= FEWEST_GROUPS}
        if len(large) < 2:
            self._tell(sorted([0, *map(len, people.values())])[-2], "source of a caption")
            return
        self._on_first()
        texts, ids, sources = [], [], []
        for row in rows:
            if row.source not in large:
                continue
            for caption in row.captions[:_MOST_CAPTIONS]:
                texts.append(caption.text)
                ids.append(row.id)
                sources.append(row.source)
        for evidence in _text_evidence(texts):
            if found := tell_class("source of a caption", evidence, ids, sources):
                yield found

    def _of_candidates(self, paths: set[str]) -> Iterator[BlindResult]:
        """Yield how often files tell images with captions from those without."""
        rows = [row for row in self._rows() if row.file_path in paths]
        kinds = [_WITH if row.captions else _WITHOUT for row in rows]
        if (fewest := min(map(kinds.count, (_WITH, _WITHOUT)))) < FEWEST_GROUPS:
            self._tell(fewest, "image with captions")
            return
        self._on_first()
        for evidence in self._image_evidence(rows):
            if evidence.opponent == "colours of the image":
                continue  # what an image shows may decide whether it has captions
            if found := tell_class("image with captions", evidence, np.arange(len(rows)), kinds):
                yield found


def _group_of(row: ReleaseRow) -> str:
    return row.contrast.anchor if row.contrast else row.file_path


def _places(rows: Sequence[ReleaseRow]) -> list[Features]:
    """Return the places of each row among these: in the release, by name and by entity."""
    by_name = {name: at for at, name in enumerate(sorted(row.file_path for row in rows))}
    by_entity = {one: at for at, one in enumerate(sorted(row.image_entity_id for row in rows))}
    return [
        {
            "row": float(row.number),
            "id": float(row.id),
            "rank of name": float(by_name[row.file_path]),
            "rank of entity": float(by_entity[row.image_entity_id]),
        }
        for row in rows
    ]


def _text_evidence(texts: Sequence[str]) -> Iterator[Evidence]:
    yield Evidence.of("length of text", [text_features(text) for text in texts])
    if any(text.strip() for text in texts):
        yield Evidence.of_words("wording", texts)
