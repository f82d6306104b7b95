"""What to build: the sources of a dataset, its sample, its gate."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.records import Granularity, Split

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


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
    version: str = Field(default="0.1.0", pattern=r"^\d+\.\d+\.\d+$")
    seed: int = 0
    identities_per_source: int = Field(default=750, gt=0)
    gate: str = "auto"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _keep_datasets_apart(self) -> Self:
        """A source is imported whole into the dataset of its name; what is built is another."""
        names = [source.name for source in self.sources]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"sources must differ in name; got {', '.join(twice)} twice")
        if self.dataset in names:
            raise ValueError(
                f"dataset must be named otherwise than its sources; got {self.dataset!r}"
            )
        return self
