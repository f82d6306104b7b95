"""What curators say of a release themselves: title, who they are, whom to write to."""

import re
from datetime import date
from typing import Annotated, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from schemas.base import Record

NonBlank = Annotated[str, Field(pattern=r"\S")]


def _fits(pattern: str, wanted: str) -> AfterValidator:
    """Takes text that fits a pattern; anything else is answered with what is wanted."""
    known = re.compile(pattern)

    def check(text: str) -> str:
        if not known.fullmatch(text):
            raise ValueError(f"{wanted}; got {text!r}")
        return text

    return AfterValidator(check)


WebAddress = Annotated[
    str, _fits(r"https?://[^\s<>\"|`]+", "must be a web address, such as https://example.org")
]
Orcid = Annotated[
    str,
    _fits(
        r"https://orcid\.org/(\d{4}-){3}\d{3}[\dX]",
        "must be an ORCID, such as https://orcid.org/0000-0002-1825-0097",
    ),
]
Doi = Annotated[
    str, _fits(r"10\.\d{4,9}/\S+", "must be a DOI, such as 10.5281/zenodo.1234567, no address")
]


class Creator(Record):
    """A curator: a person by `family_names` and `given_names`, anything else by `name`."""

    family_names: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    given_names: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    name: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    affiliation: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    orcid: Orcid | None = Field(default=None, exclude_if=lambda one: one is None)
    website: WebAddress | None = Field(default=None, exclude_if=lambda one: one is None)

    @model_validator(mode="after")
    def _is_somebody(self) -> Self:
        is_person = self.family_names is not None or self.given_names is not None
        if is_person == (self.name is not None):
            raise ValueError("a creator must have either family_names and given_names, or a name")
        if is_person and self.family_names is None:
            raise ValueError(
                f"a person must have family_names; got given_names {self.given_names!r} alone"
            )
        return self

    @property
    def is_person(self) -> bool:
        """Whether it is a person."""
        return self.name is None

    @property
    def full_name(self) -> str:
        """The name as one says it."""
        return self.name or " ".join(filter(None, (self.given_names, self.family_names)))


class ReleaseAbout(Record):
    """What the curators state; everything may be left out.

    Attributes:
        title: what the dataset is called in full.
        description: what it is, in a paragraph.
        creators: its curators.
        contact: whom to write to, above all for what is to be withdrawn: a web or mail address.
        homepage: its page.
        date_released: the day that it is published on, as it is stated; nothing else tells a day.
        doi: its digital object identifier.
        licence: under which the texts that were made here are given, as an SPDX expression.
    """

    title: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    description: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    creators: tuple[Creator, ...] = Field(default=(), exclude_if=lambda one: not one)
    contact: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)
    homepage: WebAddress | None = Field(default=None, exclude_if=lambda one: one is None)
    date_released: date | None = Field(default=None, exclude_if=lambda one: one is None)
    doi: Doi | None = Field(default=None, exclude_if=lambda one: one is None)
    licence: NonBlank | None = Field(default=None, exclude_if=lambda one: one is None)

    @field_validator("licence")
    @classmethod
    def _is_licence(cls, licence: str | None) -> str | None:
        from schemas.licence_expressions import licence_of

        if licence is None:
            return None
        known = licence_of(licence)
        if known is None or not known.permitted:
            raise ValueError(
                "must be a licence of SPDX's that permits changes, such as CC-BY-4.0; got "
                f"{licence!r}"
            )
        return known.expression

    def named(self, dataset: str) -> tuple[Creator, ...]:
        """The curators; where none is stated, those of the dataset, without a name."""
        return self.creators or (Creator(name=f"The curators of {dataset}"),)
