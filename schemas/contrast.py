"""Records of contrastive images and captions (CCD): search results, edits, groups."""

from typing import Literal

from pydantic import Field

from loupe.schemas.base import Box, EntityRecord, Record, Sha256
from loupe.schemas.image_search import RobotsAnswer, SearchHit
from loupe.schemas.profile import ChoiceSettings
from loupe.schemas.proposals import Strategy
from loupe.schemas.records import Attribution, Method, Picture, Rejection

ResultVerdict = Literal[
    "chosen", "less_similar", "near_duplicate", "already_used", "too_similar", "too_different"
]
"""The outcome of a result: `less_similar` than the chosen one, but within the bounds.

`near_duplicate` of its anchor; `already_used` as another anchor or candidate.
"""


class ConsideredResult(Record):
    """A result of a search, compared with its anchor; `rank` counts from 1."""

    rank: int = Field(ge=1)
    similarity: float = Field(ge=-1, le=1)
    verdict: ResultVerdict


class ResultsConsidered(EntityRecord, kind="results_considered"):
    """The outcomes of the first results of one search, in order; see `ChoiceCalibration`.

    `anchor_id` is the image they were compared with, `picture_ids` the downloaded results, and
    `embedder` computed the similarities (`name@revision`).
    """

    anchor_id: str
    embedder: str
    picture_ids: tuple[str, ...]
    results: tuple[ConsideredResult, ...]


class ObservedResult(Record):
    """A result of a search with its judgement, if any.

    Attributes:
        similarity: similarity to its anchor.
        near_duplicate: whether it has the anchor's content, by bytes or look.
        accepted: whether people accepted it as a candidate; None if it was not judged.
    """

    similarity: float = Field(ge=-1, le=1)
    near_duplicate: bool = False
    accepted: bool | None = None


class SuggestedBound(Record):
    """A suggested bound and its basis in a sentence; `value` is None if there were too few values.

    `known` is the number of results (or pairs of images) that it is based on.
    """

    value: float | None
    known: int
    reason: str


class ChoiceCalibration(EntityRecord, kind="choice_calibration"):
    """How similar results are to their anchors, and the suggested bounds of the choice.

    Attributes:
        embedder: the embedder of the similarities, as `name@revision`.
        settings: the current bounds.
        anchors: number of anchors.
        results: number of their results.
        near_duplicates: number of results with their anchor's content.
        judged: number of results that people judged.
        accepted: number of results that people accepted.
        quantiles: (share, similarity) of the results without near-duplicates.
        floor: the suggested floor.
        ceiling: the suggested ceiling.
        within: number of results within the current bounds, without near-duplicates.
        within_suggested: the same within the suggested bounds.
    """

    embedder: str
    settings: ChoiceSettings
    anchors: int
    results: int
    near_duplicates: int
    judged: int
    accepted: int
    quantiles: tuple[tuple[float, float], ...]
    floor: SuggestedBound
    ceiling: SuggestedBound
    within: int
    within_suggested: int


# Records of the steps of a contrastive benchmark (CCD), in their order.


class StrategyDraft(EntityRecord, kind="strategy_draft"):
    """One of the strategies in a model's answer: parsed, or rejected.

    `call` is the key of the model call; `position` counts from 0 in the answer.
    """

    position: int = Field(ge=0)
    strategy: Strategy | None = None
    refusal: Rejection | None = None
    call: str


class ImageRequest(EntityRecord, kind="image_order"):
    """A request for the contrastive image of a strategy (its parent), by one method."""

    method: Method


class StoredEdit(EntityRecord, kind="edited_picture"):
    """An image as an editor made it, before changes are measured.

    `key` is the identity of the edit (`EditRequest.key`). The duration is kept in its activity, so
    that the same edit made elsewhere is the same entity. `regions` are boxes around the intended
    change, in pixels of the image, if the editor knows them.
    """

    key: str
    model: str
    instruction: str
    seed: int
    picture: Picture
    regions: tuple[Box, ...] = ()


class FoundHit(EntityRecord, kind="found_hit"):
    """An image found for the caption of a strategy, before it is downloaded.

    `engine` is the service as `name@revision`, `search` the digest of it with its parameters.
    """

    engine: str
    search: str = ""
    query: str
    hit: SearchHit


class FoundPicture(EntityRecord, kind="found_picture"):
    """A downloaded hit: upright, decodable, without location metadata.

    Attributes:
        found: the hit.
        picture: its stored bytes.
        attribution: its licence and attribution.
        source_sha256: of the bytes as sent, which may contain a location or be larger.
        contents: digest of the settings that determine the bytes (`DownloadSettings.contents`).
        url: final address after redirects, without its query; None if nothing was downloaded.
        redirects: number of redirects.
        robots: whether the host's rules were checked; None if nothing was downloaded.
    """

    found: FoundHit
    picture: Picture
    attribution: Attribution
    source_sha256: Sha256
    contents: str
    url: str | None = None
    redirects: int = Field(default=0, ge=0)
    robots: RobotsAnswer | None = None


class ContrastGroup(EntityRecord, kind="contrast_group"):
    """An anchor and its contrastive images by their ids, for which captions are refined.

    A build that keeps lone anchors has groups without contrastive images.
    """

    anchor_id: str
    image_ids: tuple[str, ...]
