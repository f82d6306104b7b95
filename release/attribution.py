"""`ATTRIBUTION.md`: whom the images are owed to, licence by licence.

Most licences ask that the creator, the licence and the source page are named with a copy. Images
that have no terms of their own stand under those of their source, which is named once.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from release.markdown import as_link, as_text
from release.scratch import Credit
from schemas.errors import IntegrityError
from schemas.licence_expressions import permits_release
from schemas.licences import is_one_of
from schemas.release import LicenceStatistics

ATTRIBUTION = "ATTRIBUTION.md"

_SHOWN = 5
_UNKNOWN = "creator not named"
_BY_FILTER = (
    "The service that found these images states the licence of none: it gives only images that "
    "pass a filter for these licences. Which one holds, the page of an image says.\n\n"
)
_ADDRESS = re.compile(r"https?://\S+")


def attribution_text(name: str, credit: Iterable[Credit]) -> Iterator[bytes]:
    """The file of the release called `name`, piece by piece; credits come licence by licence."""
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
    page = one.source_url
    if not page:
        where = as_text(one.source)
    else:
        where = as_link(page) if _ADDRESS.fullmatch(page) else as_text(page)
    return f"{as_text(one.creator) if one.creator else _UNKNOWN}, {where}"


def licence_statistics(credit: Iterable[Credit]) -> tuple[LicenceStatistics, ...]:
    """How many images stand under which licence; credits come licence by licence."""
    counted = []
    for licence, images in groupby(credit, key=lambda one: one.licence):
        own = [one.own for one in images]
        counted.append(LicenceStatistics(licence=licence, images=len(own), own=sum(own)))
    return tuple(counted)


def refuse_forbidden(dataset: str, credit: Iterable[Credit]) -> None:
    """Sees to it that every image with terms of its own may be released.

    Raises:
        IntegrityError: the licence of one does not permit it, or is not known.
    """
    forbidden = [one for one in credit if one.own and not permits_release(one.licence)]
    if forbidden:
        shown = ", ".join(
            f"{one.file_path} of {one.source} ({one.licence})" for one in forbidden[:_SHOWN]
        )
        raise IntegrityError(
            f"{len(forbidden):,} images of {dataset!r} are under a licence that does not permit "
            f"their release, or that is not known; withdraw them, or import them with the licence "
            f"that they have: {shown}"
        )
