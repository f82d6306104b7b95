"""Under what the images of a release may be used, licence by licence and together."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Record

Condition = Literal["attribution", "share_alike", "non_commercial"]
NonBlank = Annotated[str, Field(pattern=r"\S")]
Count = Annotated[int, Field(ge=0)]


class TermsPermission(Record):
    """Terms in words of their own, of which the curators state that they permit the release.

    `basis` says why: an agreement, a letter, a paragraph of the terms.
    """

    source: NonBlank
    licence: NonBlank
    basis: NonBlank


class LicenceTerms(Record):
    """The images under one licence.

    Attributes:
        licence: as it is stated.
        expression: it, in SPDX's words; terms in words of their own are a `LicenseRef-`.
        images: how many images are under it.
        own: how many of these state it themselves, not by their source.
        conditions: what it asks for; None for terms in words of their own, which must be read.
    """

    licence: NonBlank
    expression: NonBlank
    images: Count
    own: Count
    conditions: tuple[Condition, ...] | None


class ReleaseTerms(Record):
    """What holds for a release as a whole, which is a collection: each image keeps its licence.

    Attributes:
        expression: all licences together, in SPDX's words.
        conditions: what the licences ask for together; one who keeps to them all keeps to each.
        licences: each of them, by what is stated.
        apart: share-alike licences, two and two, images under which cannot become one work.
        permissions: which terms in words of their own are stated to permit the release.
    """

    expression: NonBlank
    conditions: tuple[Condition, ...]
    licences: tuple[LicenceTerms, ...]
    apart: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=lambda one: not one)
    permissions: tuple[TermsPermission, ...] = Field(default=(), exclude_if=lambda one: not one)

    @property
    def is_read(self) -> bool:
        """Whether all of the licences are ones that we know."""
        return all(one.conditions is not None for one in self.licences)
