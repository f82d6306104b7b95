"""What stands between the steps of a contrastive benchmark (CCD); each goes on from it."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from schemas.base import EntityRecord
from schemas.download import RobotsAnswer
from schemas.image_search import SearchHit
from schemas.proposals import Box, Picture, Strategy
from schemas.records import Attribution, Rejection, Sha256

Way = Literal["search", "edit"]
"""How contrastive images are obtained: found on the web or in a folder, or edited."""


class StrategyDraft(EntityRecord):
    """One of the strategies in a model's answer: as it was understood, or why it was refused.

    `call` is the key of the model call; `position` counts from 0 in the answer.
    """

    kind: ClassVar[str] = "strategy_draft"
    position: int = Field(ge=0)
    strategy: Strategy | None = None
    refusal: Rejection | None = None
    call: str

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.strategy is None) == (self.refusal is None):
            raise ValueError("a draft must hold a strategy or a refusal, and not both")
        return self


class ImageRequest(EntityRecord):
    """A request for the contrastive image of a strategy (its parent), by one method."""

    kind: ClassVar[str] = "image_order"
    way: Way


class StoredEdit(EntityRecord):
    """A picture as an editor made it, before anybody measured what changed.

    `key` is the identity of the edit (`EditRequest.key`). How long it took, its activity tells:
    what is edited again elsewhere is the same entity. `regions` are boxes around where the picture
    was to change, in its pixels, as far as the editor knows.
    """

    kind: ClassVar[str] = "edited_picture"
    key: str
    model: str
    instruction: str
    seed: int
    picture: Picture
    regions: tuple[Box, ...] = ()


class FoundHit(EntityRecord):
    """An image that a search named for the caption of a strategy, before it is downloaded.

    `engine` is the service as `name@revision`, `search` the digest of it with its parameters.
    """

    kind: ClassVar[str] = "found_hit"
    engine: str
    search: str = ""
    query: str
    hit: SearchHit


class FoundPicture(EntityRecord):
    """A hit as it was downloaded: upright, known to decode, without metadata that tells a place.

    Attributes:
        found: the hit.
        picture: its bytes as they are stored.
        attribution: its terms.
        source_sha256: of the bytes as they were sent, which may tell a place or be larger.
        contents: names the settings that determine the bytes (`DownloadSettings.contents`).
        url: where the redirects ended, without its query; None where nothing was downloaded.
        redirects: how many were followed.
        robots: whether the host's rules were asked; None where nothing was downloaded.
    """

    kind: ClassVar[str] = "found_picture"
    found: FoundHit
    picture: Picture
    attribution: Attribution
    source_sha256: Sha256
    contents: str
    url: str | None = None
    redirects: int = Field(default=0, ge=0)
    robots: RobotsAnswer | None = None


class ContrastGroup(EntityRecord):
    """An anchor and its contrastive images, by their ids: what captions are refined for."""

    kind: ClassVar[str] = "contrast_group"
    anchor_id: str
    image_ids: tuple[str, ...] = Field(min_length=1)
