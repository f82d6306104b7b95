"""What to build: the sources of a dataset, its sample or its split, its gates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from schemas.base import Record
from schemas.records import Granularity, Split

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Version = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]


class SourceSpec(Record):
    """An annotation file and the folder that its image paths are relative to.

    `identities` and `images_per_identity` override the build's; licence and citation override what
    is known of the format.
    """

    name: Name
    format: str
    annotations: Path
    images: Path
    split: Split = "test"
    granularity: Granularity | None = None
    identities: int | None = Field(default=None, gt=0)
    images_per_identity: int | None = Field(default=None, gt=0)
    licence: str | None = None
    citation: str | None = None
    homepage: str | None = None


class UFine3CBuild(Record):
    """A UFine3C-style evaluation set (UFineBench, section 4.1).

    The paper takes 750 test identities of each of three sources. CUHK-PEDES and UFine6926 have
    about 3 and 4 images an identity, ICFG-PEDES about 20: capped at 3, and with the original
    descriptions kept beside their two rewrites, the published totals (7,446 images, 37,939 texts)
    come out within 1 %.

    `gate` says who looks at the rewrites: `required` (people, at all), `sample:RATE` (people, at
    the suspected ones and this share of the others) or `auto` (nobody; suspects are dropped and
    the release says *unreviewed*).
    """

    dataset: Name = "ufine3c"
    version: Version = "0.1.0"
    seed: int = 0
    identities_per_source: int = Field(default=750, gt=0)
    gate: str = "auto"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _keep_datasets_apart(self) -> Self:
        """A source is imported whole into the dataset of its name; what is built is another."""
        _refuse_equal_names(self.dataset, [source.name for source in self.sources])
        return self


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str | Path) else value


class VideoSourceSpec(Record):
    """A collection of videos, and the terms that they may be used under.

    `videos` are files, folders, patterns such as `street/*.mp4`, lists (`.txt`, one address a line)
    or addresses that fsspec reads. Nothing is known of a collection of videos but what is said
    here, so that the licence has to be given. `every_nth_frame` overrides the profile's.
    """

    name: Name
    videos: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
    licence: str = Field(pattern=r"\S")
    citation: str = ""
    homepage: str | None = None
    every_nth_frame: int | None = Field(default=None, ge=1)


class UFine6926Build(Record):
    """A UFine6926-style dataset, made from videos (UFineBench, section 3).

    `tracklets_gate` and `descriptions_gate` say who looks at tracklets and who describes images:
    `required` (people, at all), `sample:RATE` (people, at this share) or `auto` (nobody: what the
    filter suspects is left out, descriptions are drafted by the profile's models, and the release
    says so). With `drafts`, one of the people who describe an image begins with a draft of the
    first of those models; in the paper nobody does. Of the identities, `test_share` are for
    testing: 2,000 of 6,926 in the paper.
    """

    dataset: Name = "ufine6926"
    version: Version = "0.1.0"
    seed: int = 0
    test_share: float = Field(default=0.289, ge=0, le=1)
    tracklets_gate: str = "auto"
    descriptions_gate: str = "auto"
    drafts: bool = False
    sources: tuple[VideoSourceSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _keep_datasets_apart(self) -> Self:
        """As in `UFine3CBuild`."""
        _refuse_equal_names(self.dataset, [source.name for source in self.sources])
        return self


def _refuse_equal_names(dataset: str, sources: Sequence[str]) -> None:
    if twice := sorted({name for name in sources if sources.count(name) > 1}):
        raise ValueError(f"sources must differ in name; got {', '.join(twice)} twice")
    if dataset in sources:
        raise ValueError(f"dataset must be named otherwise than its sources; got {dataset!r}")
