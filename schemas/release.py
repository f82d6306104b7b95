"""The schema of a release's manifest: statistics and terms."""

from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from loupe.schemas.base import (
    IF_ANY,
    IF_KNOWN,
    Count,
    DatasetName,
    EntityId,
    EntityRecord,
    HexSha256,
    NonBlank,
    Record,
    Sha256,
    Split,
    Version,
)
from loupe.schemas.chat import ServedModel
from loupe.schemas.encoding import ImageEncoding
from loupe.schemas.faces import FaceTreatment
from loupe.schemas.licences import Condition, licence_of
from loupe.schemas.quality import AuditStatistics, ErrorStatistics, JudgeMeasurement
from loupe.schemas.records import Granularity, SourceTerms
from loupe.schemas.shortcuts import ShortcutCertificate
from loupe.schemas.similarity import Contamination, LeakCertificate
from loupe.schemas.taxonomy import DifferenceType, RetrievalTask, Tier

# The licences of the images of a release, one by one and together.


class TermsPermission(Record):
    """Terms in words of their own that permit the release, as stated by the curators.

    `basis` is the reason: an agreement, a letter, a paragraph of the terms.
    """

    source: NonBlank
    licence: NonBlank
    basis: NonBlank


class LicenceTerms(Record):
    """The images under one licence.

    Attributes:
        licence: the licence as stated.
        expression: its SPDX expression; terms in words of their own are a `LicenseRef-`.
        images: the number of images under it.
        own: how many of these state it themselves instead of their source.
        conditions: its conditions; None for terms in words of their own, which users must read.
    """

    licence: NonBlank
    expression: NonBlank
    images: Count
    own: Count
    conditions: tuple[Condition, ...] | None


class ReleaseTerms(Record):
    """The terms of a release as a whole. It is a collection: each image keeps its licence.

    Attributes:
        expression: the SPDX expression of all licences together.
        conditions: the union of the conditions of all licences.
        licences: the licences, sorted by name.
        apart: pairs of share-alike licences whose images cannot be combined in one work.
        permissions: terms in words of their own that permit the release, as stated by the curators.
    """

    expression: NonBlank
    conditions: tuple[Condition, ...]
    licences: tuple[LicenceTerms, ...]
    apart: tuple[tuple[str, str], ...] = IF_ANY
    permissions: tuple[TermsPermission, ...] = IF_ANY

    @property
    def is_read(self) -> bool:
        """Whether all of the licences are known ones."""
        return all(one.conditions is not None for one in self.licences)


# What curators state about a release: title, names, contact address.


WebAddress = Annotated[str, Field(pattern=r"^https?://[^\s<>\"|`]+$")]
Orcid = Annotated[str, Field(pattern=r"^https://orcid\.org/(\d{4}-){3}\d{3}[\dX]$")]
Doi = Annotated[str, Field(pattern=r"^10\.\d{4,9}/\S+$")]


class Creator(Record):
    """A curator: a person by `family_names` and `given_names`, an organisation by `name`."""

    family_names: NonBlank | None = IF_KNOWN
    given_names: NonBlank | None = IF_KNOWN
    name: NonBlank | None = IF_KNOWN
    affiliation: NonBlank | None = IF_KNOWN
    orcid: Orcid | None = IF_KNOWN
    website: WebAddress | None = IF_KNOWN

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
        """The full name, given names first."""
        return self.name or " ".join(filter(None, (self.given_names, self.family_names)))


class ReleaseAbout(Record):
    """What the curators state; everything is optional.

    Attributes:
        title: the full name of the dataset.
        description: a paragraph about the dataset.
        creators: the curators.
        contact: a web or mail address, in particular for requests of withdrawal.
        homepage: the web page.
        date_released: the stated day of publication, the only date in a release.
        doi: the digital object identifier.
        licence: the licence of the texts made here, as an SPDX expression.
    """

    title: NonBlank | None = IF_KNOWN
    description: NonBlank | None = IF_KNOWN
    creators: tuple[Creator, ...] = IF_ANY
    contact: NonBlank | None = IF_KNOWN
    homepage: WebAddress | None = IF_KNOWN
    date_released: date | None = IF_KNOWN
    doi: Doi | None = IF_KNOWN
    licence: NonBlank | None = IF_KNOWN

    @field_validator("licence")
    @classmethod
    def _is_licence(cls, licence: str | None) -> str | None:
        if licence is None:
            return None
        known = licence_of(licence)
        if known is None or not known.permitted:
            raise ValueError(
                f"must be an SPDX licence that permits changes, such as CC-BY-4.0; got {licence!r}"
            )
        return known.expression

    def named(self, dataset: str) -> tuple[Creator, ...]:
        """The curators; if none are stated, "The curators of" the dataset."""
        return self.creators or (Creator(name=f"The curators of {dataset}"),)


# The models that chose and validated the items of a benchmark, by comparing images and texts.

EmbedderPurpose = Literal[
    "validated_captions",
    "similar_images",
    "confusing_captions",
    "candidates",
    "found_images",
    "edited_images",
]


class EmbedderUse(Record):
    """What an embedder decided about items of a release.

    Evaluations of this model, or of models trained like it, are biased, because it chose the rows.

    Attributes:
        embedder: the model, `name@revision`.
        purpose: `validated_captions` were measured by how well they tell their image from others,
            `similar_images` were chosen for their similarity to an existing image,
            `confusing_captions` were compared with both images of a pair, `candidates` are
            neighbours of images with captions, `found_images` were chosen among search results for
            their similarity to the anchor, and `edited_images` were compared with the anchor's
            caption and the contrastive one.
        count: the number of these captions or images.
        settings: the settings: `k`, `eta`, `temperature` and `rounds`, `margin`, `neighbours` and
            `near_duplicates`, `first`, `floor` and `ceiling`, or `least_shift`.
    """

    embedder: Annotated[str, Field(pattern=r"\S")]
    purpose: EmbedderPurpose
    count: Annotated[int, Field(ge=1)]
    settings: dict[str, Any] = Field(default_factory=dict)


# The manifest of a release and its statistics.

DOCUMENTS_VERSION = 13
"""The version of the wording of documents (`loupe.release.card.documents`), increased with every
change.
"""

GranularityName = Granularity | Literal["unstated"]
UNSTATED: Literal["unstated"] = "unstated"
"""The granularity of sources that state none."""


class ReleasedCorrection(Record):
    """The correction of a source's terms, and the terms of its import."""

    entity_id: EntityId
    number: Annotated[int, Field(ge=1)]
    reason: str | None
    imported: SourceTerms


class ReleasedSource(Record):
    """A collection that rows come from, with its terms, including corrections."""

    entity_id: EntityId
    name: NonBlank
    format: str
    annotation_file: str
    annotation_sha256: Sha256
    licence: NonBlank
    citation: str
    homepage: str | None
    granularity: Granularity | None
    least_side_px: int | None = IF_KNOWN
    greatest_aspect: float | None = IF_KNOWN
    read_as: dict[str, Any] | None = IF_KNOWN
    faces: FaceTreatment | None = IF_KNOWN
    correction: ReleasedCorrection | None = IF_KNOWN

    @property
    def terms(self) -> SourceTerms:
        """The terms alone."""
        return SourceTerms(licence=self.licence, citation=self.citation, homepage=self.homepage)


class ReleasedVideo(Record):
    """A video that images of the release were cut from; its bytes are not released."""

    entity_id: EntityId
    source: NonBlank
    file_path: str
    sha256: HexSha256
    duration_seconds: float | None
    identities: Count
    images: Count


class ReleasedPrompt(Record):
    """A prompt for texts of the release or strategies of its contrasts."""

    entity_id: EntityId
    prompt_id: str
    version: str
    digest: str
    text: str


class ModelUse(Record):
    """The calls of a model with these parameters for the captions and contrasts of a release.

    Counts the answered calls for all drafts and rewrites of the released images, including rejected
    ones, and for the strategies of its contrastive images. `cost` is a decimal number, None if a
    call had no price. Tokens are None if a server did not state those of a call. `served` is the
    server's statement about the model, from any of the runs.
    """

    name: str
    revision: str
    parameters: dict[str, Any]
    calls: Count
    tokens_in: Count | None
    tokens_out: Count | None
    cost: str | None
    currency: str | None
    served: tuple[ServedModel, ...] = IF_ANY

    @classmethod
    def unused(cls, name: str, revision: str) -> Self:
        """A model that wrote texts without any known call."""
        nothing = {"calls": 0, "tokens_in": 0, "tokens_out": 0}
        return cls(name=name, revision=revision, parameters={}, cost=None, currency=None, **nothing)


class UnusedStatistics(Record):
    """Responses of `model` (or requests it refused) that a stage could not use, for a reason."""

    model: str
    stage: str
    reason: str
    answers: Count


class Distribution(Record):
    """A summary of integers; quartiles are numbers that occur (nearest rank)."""

    count: Count
    mean: float
    minimum: int
    lower_quartile: int
    median: int
    upper_quartile: int
    maximum: int


HISTOGRAM_STEP = 10
"""The width of the bins of histograms of words."""


class GranularityStatistics(Record):
    """The lengths of captions of one granularity.

    `histogram` counts captions by words: (10, 7) are seven captions of 10 to 19 words.
    """

    granularity: GranularityName
    images: Count
    words: Distribution
    histogram: tuple[tuple[int, int], ...]


class SourceStatistics(Record):
    """The content of one source; `rewrites` are those of its captions."""

    name: str
    granularity: GranularityName
    identities: Count
    images: Count
    originals: Count
    rewrites: Count


class SplitStatistics(Record):
    """The content of one split."""

    split: Split
    identities: Count
    images: Count
    captions: Count


class RewriteStatistics(Record):
    """Outcomes of the rewrites proposed for the released images.

    `released` are accepted rewrites and people's edits; of these, `reviewed` were decided on by a
    person and `edited` written by one. `rejected` and `pending` ones are not in the release.
    """

    released: Count
    reviewed: Count
    edited: Count
    rejected: Count
    pending: Count


class DraftStatistics(Record):
    """Descriptions that people began from a draft of `model`, and how many are unchanged drafts."""

    model: str
    started: Count
    unchanged: Count


class DescriptionStatistics(Record):
    """The makers of captions that are not from a source, except rewrites.

    `written` are texts of people, `edited` what people derived from another text, `drafted`
    unchanged texts of models; of these, `reviewed` were decided on by a person. `annotators` are
    the different people who wrote or edited. `drafts` has counts for each model whose drafts were
    shown to people.
    """

    written: Count
    edited: Count
    drafted: Count
    reviewed: Count
    annotators: Count
    drafts: tuple[DraftStatistics, ...] = IF_ANY


class TrackletStatistics(Record):
    """The tracklets of the selected images; `reviewed` were decided on by a person."""

    released: Count
    reviewed: Count


class TierStatistics(Record):
    """The content of a task that is new in one tier."""

    tier: Tier
    images: Count
    captions: Count


class TaskStatistics(Record):
    """The content of one task; `task` is None for images whose task is not known.

    `tiers` has the tiers with content, from v0 on.
    """

    task: RetrievalTask | None
    images: Count
    captions: Count
    tiers: tuple[TierStatistics, ...] = IF_ANY


class LicenceStatistics(Record):
    """The images under one licence, which `own` of them state themselves."""

    licence: NonBlank
    images: Count
    own: Count


class DifferenceStatistics(Record):
    """The contrastive images of one type: found by search, edited, or unknown."""

    difference: DifferenceType
    images: Count
    found: Count
    edited: Count


class MethodGuess(Record):
    """How often a classifier tells edited from found images by their vectors, in percent.

    Logistic regression, cross-validated by group; `low` and `high` are a 95 % interval over groups.
    `of_anchors` is its accuracy with the vectors of the anchors instead: what contents alone tell.
    `most_frequent` is that of always naming the more frequent method. Rounded to one decimal.
    """

    images: Count
    accuracy: float
    low: float
    high: float
    of_anchors: float
    most_frequent: float


class NearestStatistics(Record):
    """The mean cosine of a sample with its nearest other samples, for images and captions.

    `original_images` and `original_captions` are measured among the anchors alone, with their
    coarse captions. `embedder` (`name@revision`) made the vectors, from which `methods` is measured
    as well. Rounded to three decimals; None if there are no other samples.
    """

    embedder: str
    images: float | None
    captions: float | None
    original_images: float | None = IF_KNOWN
    original_captions: float | None = IF_KNOWN
    methods: MethodGuess | None = IF_KNOWN


class LeftOutGroups(Record):
    """Anchors of a contrastive benchmark that are left out without fine captions, by reason.

    Attributes:
        alone: anchors without an active contrastive image, which form no group.
        rejected: groups whose fine captions were rejected.
        undecided: groups whose fine captions were not written, or not decided on.
    """

    alone: Count
    rejected: Count
    undecided: Count


class RepeatStatistics(Record):
    """Images and captions that several identities have; in a contrastive benchmark, images.

    Attributes:
        images: the number of images with the bytes of an image of another identity.
        captions: the number of captions with the same words as a caption of another identity.
        image_pairs: two files of each of the first such images.
        caption_pairs: the files of two images of each of the first such captions.
    """

    images: Count
    captions: Count
    image_pairs: tuple[tuple[str, str], ...] = IF_ANY
    caption_pairs: tuple[tuple[str, str], ...] = IF_ANY


class ContrastStatistics(Record):
    """The content of a contrastive benchmark (CCD, table 1 and figure 3).

    Attributes:
        anchors: the number of anchors, including those without a contrastive image.
        contrastive: the number of images that differ from their anchor in one detail.
        captions_per_image: the number of captions of every image; None if it varies.
        coarse_captions: the number of captions of anchors that fine captions were made from.
        tokens: the mean number of words and punctuation marks of a caption.
        coarse_tokens: the same for coarse captions; None if there are none.
        translations: the number of captions by language, except English.
        differences: the contrastive images by type, all nine.
        editors: the models (`name@revision`) that edited contrastive images, with their numbers.
        without_captions: the number of active images left out without a fine caption.
        without_anchor: the number of contrastive images left out because their anchor is.
        left_out: the anchors among the images without fine captions, if any.
        nearest: the similarity of the nearest other samples, if measured.
    """

    anchors: Count
    contrastive: Count
    captions_per_image: int | None
    coarse_captions: Count
    tokens: float
    coarse_tokens: float | None
    translations: tuple[tuple[str, int], ...] = IF_ANY
    differences: tuple[DifferenceStatistics, ...]
    editors: tuple[tuple[str, int], ...] = IF_ANY
    without_captions: Count
    without_anchor: Count
    left_out: LeftOutGroups | None = IF_KNOWN
    nearest: NearestStatistics | None = IF_KNOWN


class ChoiceStatistics(Record):
    """How often a tester picked the right one of six images, or of six captions.

    `size` tests were drawn in this direction; in `several` of the answered ones another option
    fits, too. `similar_by` is what found the other options: an embedder, or the words of captions.
    """

    direction: Literal["caption-to-image", "image-to-caption"]
    tester: str
    correct: Count
    total: Count
    several: Count
    size: Count
    similar_by: tuple[str, ...] = IF_ANY


class AgreementStatistics(Record):
    """The agreement in one control of a review queue, over items with several answers.

    `observed` is the share of pairs of equal answers, or the similarity of texts. `coefficient` is
    Krippendorff's alpha, for choices, with its 95 % interval; None if it is not defined. All are
    rounded to three decimals.
    """

    queue: str
    control: str
    kind: Literal["choice", "text"]
    items: Count
    annotators: Count
    observed: float
    coefficient: float | None = IF_KNOWN
    low: float | None = IF_KNOWN
    high: float | None = IF_KNOWN


class JudgeStatistics(Record):
    """How a model's second opinion on texts agrees with the rules and with people.

    It read `texts` (in a contrastive benchmark: groups of captions) and objected to `flagged` of
    them. `as_rules` have the same verdict from the faithfulness check; None for captions, which it
    compared with their images, since no rule does. People decided on `reviewed` of them;
    `as_people` of these have the same verdict: accepted unchanged, and no objection, or neither.
    """

    judge: str
    texts: Count
    flagged: Count
    as_rules: Count | None = IF_KNOWN
    reviewed: Count
    as_people: Count
    measured: JudgeMeasurement | None = IF_KNOWN


class TextChecks(Record):
    """The `checks` that compared rewrites with their captions, in `language` (ISO 639-1).

    Those that are `reading` understand what a text in it states; the others compare its form and
    its words.
    """

    language: str
    checks: tuple[str, ...]
    reading: tuple[str, ...] = IF_ANY


class GateStatistics(Record):
    """The number of items whose last decision at a gate is one of people, or of a policy alone.

    `rejected` are those of `by_policy` that the policy rejected. `people` gave the answers that
    count, gold items and audits left out. `instructions` are the digests of the instructions of the
    queue under which they gave them, in the order of the first answers, with the numbers of these.
    """

    gate: str
    by_people: Count
    by_policy: tuple[tuple[str, int], ...]
    rejected: tuple[tuple[str, int], ...] = IF_ANY
    people: Count | None = IF_KNOWN
    instructions: tuple[tuple[str, int], ...] = IF_ANY


class OriginalsStatistics(Record):
    """The number of captions of sources that a check flagged for a reason, and that were left out.

    `reason` is `shared_caption` (captions of several identities have the text) or a form that no
    description has. The others were kept by people.
    """

    reason: str
    flagged: Count
    left_out: Count


class QuotaStatistics(Record):
    """What a build asked for, and how much of it the release has; `what` is a phrase."""

    what: str
    asked: Count
    reached: Count

    @property
    def short_by(self) -> int:
        """How many are missing."""
        return max(0, self.asked - self.reached)


class FaceStatistics(FaceTreatment):
    """The images whose faces were treated alike.

    Attributes:
        images: the images that were searched for faces.
        changed: those in which some were found, and changed.
        faces: the number of these.
    """

    images: Count
    changed: Count
    faces: Count


class StratumStatistics(Record):
    """The images and identities of a stratum of people, by what captions state of a dimension."""

    dimension: str
    stratum: str
    identities: Count
    images: Count


class ReleaseStatistics(Record):
    """Statistics of a release.

    `styles_per_image` counts images by their captions' distinct authors. `vocabulary` is the number
    of different words, ignoring letter case. `audits` has the error rates found by audits, one for
    each review queue, and `errors` those inferred from all answers; `choices` the accuracy in
    forced-choice tests (6-AFC); `agreement` that of annotators, and `judges` that of models;
    `unused` the unusable responses of models; `gates` who decided; `originals` the captions of
    sources against which something speaks; `repeats` the images and captions of several identities;
    `quotas` what the build asked for, `test_share` the share of identities for testing that it
    wanted; `text_checks` what compared rewrites with captions; `faces` what was done to faces;
    `strata` what captions state of people. Empty values are omitted.
    """

    images: Count
    captions: Count
    identities: Count
    vocabulary: Count
    words: Distribution
    splits: tuple[SplitStatistics, ...]
    sources: tuple[SourceStatistics, ...]
    granularities: tuple[GranularityStatistics, ...]
    styles_per_image: tuple[tuple[int, int], ...]
    authors: tuple[tuple[str, int], ...]
    rewrites: RewriteStatistics
    descriptions: DescriptionStatistics | None = IF_KNOWN
    tracklets: TrackletStatistics | None = IF_KNOWN
    audits: tuple[AuditStatistics, ...] = IF_ANY
    tasks: tuple[TaskStatistics, ...] = IF_ANY
    licences: tuple[LicenceStatistics, ...] = IF_ANY
    contrasts: ContrastStatistics | None = IF_KNOWN
    choices: tuple[ChoiceStatistics, ...] = IF_ANY
    agreement: tuple[AgreementStatistics, ...] = IF_ANY
    judges: tuple[JudgeStatistics, ...] = IF_ANY
    unused: tuple[UnusedStatistics, ...] = IF_ANY
    errors: tuple[ErrorStatistics, ...] = IF_ANY
    gates: tuple[GateStatistics, ...] = IF_ANY
    originals: tuple[OriginalsStatistics, ...] = IF_ANY
    quotas: tuple[QuotaStatistics, ...] = IF_ANY
    text_checks: TextChecks | None = IF_KNOWN
    test_share: float | None = IF_KNOWN
    faces: tuple[FaceStatistics, ...] = IF_ANY
    strata: tuple[StratumStatistics, ...] = IF_ANY
    repeats: RepeatStatistics = RepeatStatistics(images=0, captions=0)

    @property
    def candidates(self) -> int:
        """The number of images without captions, which are candidates only."""
        return dict(self.styles_per_image).get(0, 0)


class PriorWithdrawal(Record):
    """Withdrawals from an earlier release of the dataset, as listed in `withdrawals.json`.

    `rows` of its rows must no longer be used, and some texts of `rows_in_part`.
    """

    version: Version
    id: HexSha256
    rows: Count
    rows_in_part: Count


class ContainedRelease(Record):
    """A release of a lower tier whose images and captions are all in this one."""

    tier: Tier
    version: Version
    id: HexSha256
    images: Count
    captions: Count


class LineageStatistics(Record):
    """The number of rows of each table of `lineage/`."""

    entities: Count
    derivations: Count
    decisions: Count
    calls: Count
    activities: Count
    agents: Count


class ReleasedPart(Record):
    """A part of an own column: a field of its records. `type` is one of `columns.toml`."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    type: Literal["string", "int64", "float64", "bool"]
    is_list: bool = Field(default=False, exclude_if=lambda value: not value)
    meaning: str = Field(default="", exclude_if=lambda value: not value)


class ReleasedColumn(Record):
    """A column of a dataset's own: the records of one kind that belong to the image of a row."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    meaning: str = ""
    parts: tuple[ReleasedPart, ...] = Field(min_length=1)


class ReleasedStep(Record):
    """A step of a pipeline of one's own.

    Attributes:
        name: its name in the pipeline.
        version: its version.
        does: what it does, such as "Image -> bool".
        settings: those that differ from the defaults, if `does` has none of them.
        models: the models that it asks, `name@revision`.
        selects: whether what it asks them decides what is in the release.
    """

    name: NonBlank
    version: NonBlank
    does: str = ""
    settings: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda value: not value)
    models: tuple[str, ...] = IF_ANY
    selects: bool = Field(default=False, exclude_if=lambda value: not value)


class DatasetForm(EntityRecord, kind="dataset_form"):
    """What a dataset that was built with the public API says about itself.

    Attributes:
        tags: what it is about, in words for search; it is about people only if they say so.
        columns: the columns of its own records.
        steps: the steps of its pipeline in order, without gates and release.
    """

    tags: tuple[str, ...] = ()
    columns: tuple[ReleasedColumn, ...] = ()
    steps: tuple[ReleasedStep, ...] = ()


class Manifest(Record):
    """A release in one record. Its files are listed in `manifest.json`, under `files`.

    `id` is the SHA-256 of the manifest without `id` and `files`, as canonical JSON (sorted keys, no
    spaces, UTF-8). It covers the files by `files_root`: the root of a Merkle tree (RFC 6962) over
    their `files_count` entries, each as canonical JSON, in the order of their paths.

    `entities_sha256` is the digest of the ids of everything in the release, each followed by a line
    feed: row by row the image, the tracklet from which it was selected, and captions; then sources,
    prompts, videos and corrections in the order of this record.

    `trackers` (`name@revision`) found the people in the videos, and `embedders` chose and validated
    the content of a benchmark of tasks. `leaks` is the certificate of releases with several splits,
    and `contamination` the content shared with other datasets; both are in `leaks.json`, too.
    `encoding` is the encoder of all images, if they are not released as they are stored, and
    `shortcuts` what blind opponents reach, if there was enough to ask them.
    `tier` is that of a benchmark of tasks, and `contains` are the contained releases of lower
    tiers. `lineage` counts the rows of the lineage tables, and `withdrawn` what was withdrawn from
    earlier releases. `form` is that of a dataset built with the public API, with its own columns.
    `about` has the statements of the curators, and `terms` the terms of all images together.
    `of_persons` is false where a build of descriptions does not ask for the check of persons; else
    the form of the release tells.

    `documents_version` is the version of the wording of documents. Verification renders them again
    and reports versions that it does not know.
    """

    schema_version: Literal[1] = 1
    documents_version: int = Field(default=DOCUMENTS_VERSION, ge=1)
    id: HexSha256
    files_root: HexSha256
    files_count: Count
    dataset: DatasetName
    version: Version
    tier: Tier | None = IF_KNOWN
    encoding: ImageEncoding | None = IF_KNOWN
    contains: tuple[ContainedRelease, ...] = IF_ANY
    demonstration: bool
    unreviewed: bool
    entities_sha256: HexSha256
    sources: tuple[ReleasedSource, ...]
    prompts: tuple[ReleasedPrompt, ...]
    models: tuple[ModelUse, ...]
    videos: tuple[ReleasedVideo, ...] = IF_ANY
    trackers: tuple[str, ...] = IF_ANY
    embedders: tuple[EmbedderUse, ...] = IF_ANY
    statistics: ReleaseStatistics
    leaks: LeakCertificate | None = IF_KNOWN
    shortcuts: ShortcutCertificate | None = IF_KNOWN
    contamination: tuple[Contamination, ...] = IF_ANY
    lineage: LineageStatistics
    withdrawn: tuple[PriorWithdrawal, ...] = IF_ANY
    form: DatasetForm | None = IF_KNOWN
    about: ReleaseAbout | None = IF_KNOWN
    of_persons: bool | None = IF_KNOWN
    terms: ReleaseTerms

    @property
    def name(self) -> str:
        """The dataset and the version, such as `people 1.0.0`."""
        return f"{self.dataset} {self.version}"

    @property
    def corrections(self) -> tuple[ReleasedCorrection, ...]:
        """The corrections of the terms of sources, in order."""
        return tuple(one.correction for one in self.sources if one.correction)

    @property
    def stated_entities(self) -> list[str]:
        """The ids of sources, prompts, videos and corrections, ordered as in `entities_sha256`."""
        stated = (self.sources, self.prompts, self.videos, self.corrections)
        return [one.entity_id for many in stated for one in many]


# Files of a release, and the credits of its images.


class ReleasedFile(NamedTuple):
    """A file of a release. `path` is relative to its folder, with forward slashes.

    `entity_id` is the entity of an image; other files have none.
    """

    path: str
    sha256: str
    size_bytes: int
    entity_id: str | None = None


class Credit(NamedTuple):
    """An image and its terms, which are its `own` or those of its source."""

    licence: str
    number: int
    file_path: str
    creator: str | None
    source_url: str | None
    source: str
    own: bool
