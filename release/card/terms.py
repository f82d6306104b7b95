"""Licences of a release: whether every image may be released, and under which conditions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import NamedTuple

from loupe.release.card.markup import as_link, as_text
from loupe.schemas.errors import IntegrityError
from loupe.schemas.licences import (
    CONDITIONS,
    Condition,
    condition_names,
    is_compatible,
    is_one_of,
    licence_of,
    may_become,
    permits_release,
)
from loupe.schemas.release import (
    Credit,
    LicenceStatistics,
    LicenceTerms,
    ReleasedSource,
    ReleaseTerms,
    SourceStatistics,
    TermsPermission,
)

# Checks that every image of a release is under a licence that permits it.
#
# An image is under its own licence, or under that of its source. Both must permit the release of
# derived works. Terms in words of their own ("research use only") permit it if the curators state
# so, with a reason that becomes part of the release.

_SHOWN = 5


class LicensedItem(NamedTuple):
    """The number of images of a source under a licence, which is their `own` or the source's."""

    licence: str
    source: str
    own: bool
    images: int


def held_by_sources(
    sources: Iterable[ReleasedSource], counted: Iterable[SourceStatistics]
) -> list[LicensedItem]:
    """The licences of images under the terms of their sources.

    If several sources have the same name, their images are under the terms of each.
    """
    images = {one.name: one.images for one in counted}
    stated = sorted({(one.licence, one.name) for one in sources})
    return [LicensedItem(licence, name, False, images.get(name, 0)) for licence, name in stated]


def terms_of(held: Sequence[LicensedItem], permitted_terms: Mapping[str, str]) -> ReleaseTerms:
    """The terms of a release of these images.

    `permitted_terms` are reasons by source; unnecessary ones are left out.
    """
    names = sorted({one.licence for one in held})
    licences = [_licence_terms(name, held) for name in names]
    asked: set[Condition] = set()
    parts: dict[str, None] = {}
    for one in licences:
        asked.update(one.conditions or ())
        is_composed = " " in one.expression and len(licences) > 1
        parts[f"({one.expression})" if is_composed else one.expression] = None
    return ReleaseTerms(
        expression=" AND ".join(parts),
        conditions=tuple(one for one in CONDITIONS if one in asked),
        licences=tuple(licences),
        apart=_apart(licences),
        permissions=_needed_permissions(held, permitted_terms),
    )


def _needed_permissions(
    held: Iterable[LicensedItem], permitted_terms: Mapping[str, str]
) -> tuple[TermsPermission, ...]:
    found: dict[tuple[str, str], TermsPermission] = {}
    for one in held:
        basis = permitted_terms.get(one.source, "")
        if _needs_permission(one) and basis.strip():
            stated = TermsPermission(source=one.source, licence=one.licence, basis=basis)
            found[one.source, one.licence] = stated
    return tuple(found[key] for key in sorted(found))


def _licence_terms(licence: str, held: Iterable[LicensedItem]) -> LicenceTerms:
    under = [one for one in held if one.licence == licence]
    known = licence_of(licence)
    source = re.sub("[^A-Za-z0-9.]+", "-", min(one.source for one in under)).strip("-")
    return LicenceTerms(
        licence=licence,
        expression=known.expression if known else f"LicenseRef-{source or 'source'}-terms",
        images=sum(one.images for one in under),
        own=sum(one.images for one in under if one.own),
        conditions=condition_names(licence),
    )


def _apart(licences: Iterable[LicenceTerms]) -> tuple[tuple[str, str], ...]:
    """Pairs of share-alike licences neither of which permits derived works under the other."""
    share_alike: set[str] = set()
    for one in licences:
        known = licence_of(one.licence)
        is_share_alike = "share_alike" in (one.conditions or ())
        if is_share_alike and known is not None and len(known.permitted) == 1:
            share_alike.update(*known.permitted)
    pairs = []
    for first, second in combinations(sorted(share_alike), 2):
        if not may_become(first, second) and not may_become(second, first):
            pairs.append((first, second))
    return tuple(pairs)


def _needs_permission(one: LicensedItem) -> bool:
    """Whether an image is under terms in words of their own, which only people can interpret."""
    return not one.own and licence_of(one.licence) is None


def are_words_of_source(licence: str, *, of_source: bool) -> bool:
    """Whether terms are those of a source in words of its own, with creators or without.

    A permission of these terms is one for the image.
    """
    return of_source and licence_of(licence) is None


def unpermitted(
    held: Iterable[LicensedItem], permitted_terms: Mapping[str, str]
) -> list[LicensedItem]:
    """The items that may not be released, because their own licence or their source's forbids it.

    Terms of a source in words of their own are permitted if the curators state so.
    """
    found = []
    for one in held:
        is_stated = bool(permitted_terms.get(one.source, "").strip())
        is_permitted = permits_release(one.licence) or (is_stated and _needs_permission(one))
        if one.images and not is_permitted:
            found.append(one)
    return found


def refuse_unpermitted(
    dataset: str, held: Iterable[LicensedItem], permitted_terms: Mapping[str, str]
) -> None:
    """Raise unless the terms of every image permit its release.

    Raises:
        IntegrityError: if they do not, and the curators do not state a permission.
    """
    wrong = unpermitted(held, permitted_terms)
    if own := [one for one in wrong if one.own]:
        raise IntegrityError(
            f"images of {dataset!r} are under a licence of their own that does not permit their "
            f"release, or that is not known: {_in_short(own)}; withdraw them, or import them with "
            f"the licence that they have"
        )
    forbidden = [one for one in wrong if licence_of(one.licence) is not None]
    if forbidden:
        raise IntegrityError(
            f"images of {dataset!r} are under a licence of their source that forbids their "
            f"release: {_in_short(forbidden)}; no reason overrules that: withdraw the source "
            f"(loupe withdraw --source), or correct its licence where the source is stated"
        )
    if wrong:
        raise IntegrityError(
            f"images of {dataset!r} are under terms of their source that are not a known licence: "
            f"{_in_short(wrong)}; correct its licence where the source is stated, or state why its "
            f"terms permit the release (permitted_by of the source or permitted_terms in "
            f"releases.toml; of loupe release build, --permitted-by SOURCE=REASON)"
        )


def _in_short(wrong: Sequence[LicensedItem]) -> str:
    shown = ", ".join(f"{one.images:,} of {one.source} ({one.licence!r})" for one in wrong[:_SHOWN])
    return shown + (f", and of {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else "")


class DerivedTerms:
    """Compares the licences of images that were edited from an anchor with that of the anchor."""

    def __init__(self) -> None:
        self._anchors: dict[str, str] = {}
        self._waiting: dict[str, list[tuple[str, str]]] = {}
        self.wrong: list[str] = []

    def check(
        self, file_path: str, licence: str, anchor: str | None, method: str | None
    ) -> str | None:
        """Check a row; returns a problem or None. Rows of a group must follow each other."""
        if anchor is None:
            self._anchors = {file_path: licence}
            edits = self._waiting.pop(file_path, [])
            wrong = [edit for edit, one in edits if not is_compatible(licence, one)]
            if not wrong:
                return None
            problem = (
                f"is under {licence!r}, which does not allow the licences of what was edited out "
                f"of it: {', '.join(wrong)}"
            )
        elif method != "edit":
            return None
        elif (original := self._anchors.get(anchor)) is None:
            self._waiting.setdefault(anchor, []).append((file_path, licence))
            return None
        elif is_compatible(original, licence):
            return None
        else:
            problem = (
                f"is under {licence!r}, and was edited out of {anchor}, which is under "
                f"{original!r} and does not allow that"
            )
        self.wrong.append(f"{file_path} {problem}")
        return problem

    def refuse(self, dataset: str) -> None:
        """Raise if any row had a problem.

        Raises:
            IntegrityError: if any row had a problem.
        """
        if self.wrong:
            raise IntegrityError(
                f"{len(self.wrong):,} edited images of {dataset!r} are under another licence than "
                f"their anchor allows: {'; '.join(self.wrong[:_SHOWN])}"
            )


# `ATTRIBUTION.md`: the creators of the images, by licence.
#
# Most licences require that the creator, the licence and the source page are named with a copy.
# Images without terms of their own are under those of their source, which is named once.

_UNKNOWN = "creator not named"
_BY_FILTER = (
    "The search service does not state the licence of single images; it returns only images "
    "under one of these licences. See the page of each image for its licence.\n\n"
)


def attribution_text(name: str, credit: Iterable[Credit]) -> Iterator[bytes]:
    """The attribution of the release called `name`, in pieces; credits are sorted by licence."""
    yield (
        f"# Attribution: {as_text(name)}\n\n"
        "Images, creators and source pages, by licence. Keep this file with copies of the images.\n"
    ).encode()
    for licence, images in groupby(credit, key=lambda one: one.licence):
        yield f"\n## {as_text(licence)}\n\n{_BY_FILTER if is_one_of(licence) else ''}".encode()
        by_source: dict[str, int] = {}
        for one in images:
            if one.own:
                yield f"- `{one.file_path}`: {_owed(one)}\n".encode()
            else:
                by_source[one.source] = by_source.get(one.source, 0) + 1
        for source, count in sorted(by_source.items()):
            images_are = "1 image is" if count == 1 else f"{count:,} images are"
            yield f"- {images_are} under the terms of their source, {as_text(source)}\n".encode()


def _owed(one: Credit) -> str:
    where = as_link(one.source_url) if one.source_url else as_text(one.source)
    return f"{as_text(one.creator) if one.creator else _UNKNOWN}, {where}"


def licence_statistics(held: Iterable[LicensedItem]) -> tuple[LicenceStatistics, ...]:
    """The number of images under each licence; `held` is sorted by licence."""
    counted = []
    for licence, same in groupby(held, key=lambda one: one.licence):
        images = [(one.images, one.images * one.own) for one in same]
        total, own = map(sum, zip(*images, strict=True))
        counted.append(LicenceStatistics(licence=licence, images=total, own=own))
    return tuple(counted)
