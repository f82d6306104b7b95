"""The schema of a profile: models, their settings, and prices.

docs/ccd.md describes the settings of contrastive images.
"""

import math
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from loupe.schemas.base import IF_KNOWN, Record, TorchDevice, sha256_of
from loupe.schemas.chat import NamedModel, ServerAddress, require_private
from loupe.schemas.content_filter import ContentFilterSpec, ServiceFlags
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    EmbedderSpec,
    PlainModelSpec,
)
from loupe.schemas.image_edit import BuiltinEditor, ImageEditorSpec
from loupe.schemas.image_search import DownloadSettings, ImageSearchSpec
from loupe.schemas.languages import LanguageCode
from loupe.schemas.quality import MeasuredJudge
from loupe.schemas.recos import ConfusionSettings, DiscriminabilitySettings
from loupe.schemas.similarity import NearDuplicateSettings
from loupe.schemas.tracking import FilterSettings, TrackingSettings
from loupe.schemas.validation import refuse_code

_LEAST_SPAN = 2.1  # ratio of the bounds, most pixels to fewest
_FEWEST_PATCHES = 64  # of the largest image


class ImageArea(Record):
    """The size of images shown to a model (CCD, step 1).

    Attributes:
        side_multiple_px: both sides are multiples of this, in pixels.
        least_pixels: the fewest pixels of an image.
        most_pixels: the most.
        longest_ratio: longer side to shorter side; more elongated images are rejected.
    """

    side_multiple_px: int = Field(default=28, ge=1)
    least_pixels: int = Field(default=256 * 28 * 28, ge=1)
    most_pixels: int = Field(default=840 * 504, ge=1)
    longest_ratio: float = Field(default=200, ge=1, le=10_000)

    @model_validator(mode="after")
    def _has_room(self) -> "ImageArea":
        # Sides are rounded. An enlarged side is rounded up by at most a multiple; a reduced side of
        # two multiples loses at most half.
        multiple, least = self.side_multiple_px, self.least_pixels
        narrow, wide = math.sqrt(least / self.longest_ratio), math.sqrt(least * self.longest_ratio)
        needed = max(
            (narrow + multiple) * (wide + multiple),
            _LEAST_SPAN * least,
            _FEWEST_PATCHES * multiple**2,
            self.longest_ratio * multiple**2,
        )
        if self.most_pixels < needed:
            raise ValueError(
                f"most_pixels must be at least {math.ceil(needed)}, so that every image has "
                f"a size within the bounds; got {self.most_pixels}"
            )
        return self


class StyleLimits(Record):
    """How far a fine caption may be from the style of its coarse caption without a warning.

    Attributes:
        shortest_ratio: least ratio of its words to those of the coarse caption.
        longest_ratio: largest ratio (the paper's captions have 2.2 and 2.6 times as many words on
            average).
        free_words: captions of up to this many words are never too long.
        kept_share: least share of the coarse caption's content words that it keeps.
        further_sentences: most sentences beyond the number in the coarse caption.
    """

    shortest_ratio: float = Field(default=0.8, ge=0)
    longest_ratio: float = Field(default=4.0, ge=1, le=10_000)
    free_words: int = Field(default=30, ge=0)
    kept_share: float = Field(default=0.25, ge=0, le=1)
    further_sentences: int = Field(default=1, ge=0)


class ChoiceSettings(Record):
    """Which of the first results of a search may be the candidate (CCD, step 2).

    Similarities are cosines of an embedder's image vectors. Their range depends on the embedder, so
    a profile states both bounds next to its embedder, and `calibrate_choice` suggests them.

    Attributes:
        first: number of results to consider; CCD takes five.
        floor: a result less similar to the anchor than this is an unrelated image.
        ceiling: a result more similar than this is the anchor again, whatever its bytes.
        doubtful_misfit: flag a result if its cosine to the contrastive caption is lower by more
            than this than that of the anchor to its own caption, because more than the one detail
            may differ.
    """

    first: int = Field(default=5, ge=1)
    floor: float = Field(default=0.3, ge=-1, le=1)
    ceiling: float = Field(default=0.97, ge=-1, le=1)
    doubtful_misfit: float = Field(default=0.05, ge=0, le=2)

    @model_validator(mode="after")
    def _bounds_rise(self) -> "ChoiceSettings":
        if self.floor >= self.ceiling:
            raise ValueError(
                f"floor must be less than ceiling; got {self.floor} and {self.ceiling}"
            )
        return self


class EditCheckSettings(Record):
    """When two pixels differ visibly, and when an edit changed nothing or too much.

    Colours are compared in CIELAB after both images were scaled to `side_px`, aligned and smoothed.
    Shares are of the image's pixels, 0 to 1.

    Attributes:
        side_px: longer side of the compared images, in pixels.
        smoothing_px: standard deviation of the smoothing, in those pixels.
        visible_difference: colour difference (ΔE*ab) from which a pixel has changed.
        drift: global colour differences up to this are the model's drift and are removed.
        least_changed_share: reject the edit below this changed share.
        doubtful_outside_share: flag from this share changed outside the wanted region.
        doubtful_changed_share: flag from this changed share if one thing was to change.
        doubtful_global_share: flag below this changed share if the whole image was to change.
        least_shift: reject the edit up to this shift towards the wanted caption; None to disable.
        doubtful_shift: flag below this shift.
        doubtful_unplaced_shift: flag below this shift if one thing was to change at an unknown
            place in the image, because then only the embedder can identify it.
    """

    side_px: int = Field(default=512, ge=64)
    smoothing_px: float = Field(default=1.5, gt=0)
    visible_difference: float = Field(default=14.0, gt=0)
    drift: float = Field(default=4.0, ge=0)
    least_changed_share: float = Field(default=0.001, ge=0, le=1)
    doubtful_outside_share: float = Field(default=0.02, ge=0, le=1)
    doubtful_changed_share: float = Field(default=0.5, ge=0, le=1)
    doubtful_global_share: float = Field(default=0.15, ge=0, le=1)
    least_shift: float | None = Field(default=0.0, ge=-4, le=4)
    doubtful_shift: float = Field(default=0.03, ge=-4, le=4)
    doubtful_unplaced_shift: float = Field(default=0.03, ge=-4, le=4)


class Prices(Record):
    """The price of a model's tokens, per million, in `currency`."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    currency: str = "USD"

    def cost(self, tokens_in: int | None, tokens_out: int | None) -> float | None:
        """Return the price of one call; None if it depends on unknown token counts."""
        priced = ((tokens_in, self.input_per_million), (tokens_out, self.output_per_million))
        if any(tokens is None and price for tokens, price in priced):
            return None
        return sum((tokens or 0) * price for tokens, price in priced) / 1_000_000


class Sampling(Record):
    """Sampling parameters.

    Attributes:
        temperature: from 0, which is the most likely answer.
        top_p: the share of probability from which tokens are drawn.
        seed: the seed of the server; None lets it choose.
        max_tokens: the most tokens of an answer.
    """

    temperature: float = Field(default=0.7, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int | None = 0
    max_tokens: int = Field(default=1024, gt=0)


class _ChatModelBase(NamedModel):
    """A chat model.

    Attributes:
        is_immediate: whether it answers by rules in this process, quickly and free of charge.
    """

    is_immediate: ClassVar[bool] = False
    prices: Prices | None = None


class _FreeModel(_ChatModelBase):
    is_immediate = True
    prices: Prices | None = Prices(input_per_million=0, output_per_million=0)


class BuiltinRewriter(_FreeModel):
    """The rule-based rewriter: no download, deterministic by seed."""

    determined_by = ("seed", "style")
    provider: Literal["builtin"] = "builtin"
    name: str = "loupe-rule-rewriter"
    revision: str = "3"
    seed: int = 0
    style: Literal["plain", "flowing", "brief"] = "plain"


class ImportedRewrites(_FreeModel):
    """Existing rewrites, by people or by a model elsewhere; `name` is the author.

    `path` is a file of JSON lines, `{"source": "…", "rewrite": "…"}`, and `sha256` is its digest: a
    changed file is read again. If a description has several rewrites, `number` selects one, from 1.
    """

    determined_by = ("sha256", "number")
    provider: Literal["file"]
    revision: str = "1"
    path: Path
    number: int = Field(default=1, ge=1)
    sha256: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _look_at_the_file(cls, values: dict[str, Any]) -> dict[str, Any]:
        path = Path(str(values.get("path", "")))
        if values.get("sha256") is not None or not path.is_file():
            return values
        return values | {"sha256": sha256_of(path.read_bytes())}


class BuiltinDescriber(_FreeModel):
    """The describer that names colours and their positions: no download, deterministic."""

    determined_by = ("style",)
    provider: Literal["builtin-describer"] = "builtin-describer"
    name: str = "loupe-colour-describer"
    revision: str = "1"
    style: Literal["plain", "flowing"] = "plain"


class BuiltinCaptioner(_FreeModel):
    """The captioner that reads the code on drawn stills and repeats given facts: no download.

    `details` is the number of details (things after the first, colours, numbers, a place …) of a
    first caption.
    """

    determined_by = ("details",)
    provider: Literal["builtin-captioner"] = "builtin-captioner"
    name: str = "loupe-coded-stills-captioner"
    revision: str = "2"
    details: int = Field(default=4, ge=1, le=12)


class PluginChat(_FreeModel):
    """The chat model of a plugin, by its name among the entry points `loupe.models`.

    `options` are what it is made with.
    """

    is_immediate = False
    determined_by = ("options",)
    provider: Literal["plugin"]
    revision: str = "1"
    options: dict[str, Any] = Field(default_factory=dict)


class BuiltinContraster(_FreeModel):
    """Proposes strategies for drawn stills and refines their captions: no download.

    It uses the code on the drawings and the brief; deterministic.
    """

    provider: Literal["builtin-contraster"] = "builtin-contraster"
    name: str = "loupe-coded-stills-contraster"
    revision: str = "2"


class _SampledModel(_ChatModelBase):
    sampling: Sampling = Sampling()

    @property
    def parameters(self) -> dict[str, Any]:
        """Return everything, besides the model, that determines an answer."""
        return self.sampling.model_dump()


class Launch(Record):
    """How to serve a model with vLLM on your own machine; `loupe doctor` prints the command.

    `architecture` is the class that the model's configuration names, `flags` follow the address,
    and `vllm` is the version to use if the current one no longer serves the model.
    """

    architecture: str
    flags: tuple[str, ...] = ()
    vllm: str | None = None


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("authorization", "content-length", "content-type", "host", "transfer-encoding")
"""A key is named by `api_key_variable`; the others belong to the transport."""


class OpenAIChat(_SampledModel):
    """A model behind an OpenAI-compatible server, such as vLLM.

    Servers accept different parameters, so that the form of a request can be changed.

    Attributes:
        base_url: the address of the server, such as `http://127.0.0.1:8001/v1`.
        api_key_variable: the environment variable that holds the key; keys themselves are never
            stored in a profile.
        api_key_header: the header for the key (Azure: `api-key`); None for a bearer token.
        limit_parameter: the parameter that limits the tokens of an answer.
        leave_out: sampling parameters that are not sent.
        headers: further headers of every request.
        query: further parameters of the address.
        body: further parameters of every request.
        structured: how the form of an answer is requested: by its JSON schema, as any JSON object,
            or only in the words of the prompt.
        read_reasoning: whether an answer whose content is null is read from `reasoning_content` or
            `reasoning`.
        timeout_seconds: for a whole answer.
        max_retries: for timeouts, broken answers, 429 and 5xx.
        max_in_flight: requests at once.
        launch: how to start a server of your own; answers do not depend on it.
    """

    provider: Literal["openai"]
    base_url: ServerAddress
    api_key_variable: str | None = None
    api_key_header: str | None = None
    limit_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    leave_out: tuple[Literal["temperature", "top_p", "seed", "max_tokens"], ...] = ()
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] = Field(default_factory=dict)
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    read_reasoning: bool = False
    timeout_seconds: float = Field(default=120.0, gt=0)
    max_retries: int = Field(default=5, ge=0)
    max_in_flight: int = Field(default=32, gt=0)
    launch: Launch | None = None

    @property
    def may_use_proxy(self) -> bool:
        """Whether a proxy of the environment may be used: without encryption it would see a key."""
        return self.base_url.startswith("https://") or self.api_key_variable is None

    @model_validator(mode="after")
    def _keep_the_key_private(self) -> Self:
        require_private(self.base_url, self.api_key_variable)
        return self

    @property
    def sent_sampling(self) -> dict[str, Any]:
        """Return the sampling parameters that are sent to the server, by their names here."""
        values = self.sampling.model_dump()
        return {name: value for name, value in values.items() if name not in self.leave_out}

    @property
    def parameters(self) -> dict[str, Any]:
        """Return everything, besides the model, that determines an answer."""
        asked = {} if self.structured == "json_schema" else {"structured": self.structured}
        return {**self.sent_sampling, **asked, **self.body}

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
                raise ValueError(f"headers must be printable ASCII; got {name!r}")
            if name.casefold() in _OWN_HEADERS:
                raise ValueError(f"headers must not set {name}: Loupe sets it")
        return headers

    @field_validator("body")
    @classmethod
    def _leave_the_request_alone(cls, body: dict[str, Any]) -> dict[str, Any]:
        fixed = {"model", "messages", "stream", "n", *Sampling.model_fields}
        if taken := sorted(fixed & set(body)):
            raise ValueError(f"body must not set {', '.join(taken)}: Loupe sets these")
        return body


_OF_SPEED = frozenset(
    {
        *("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "cpu_offload_gb"),
        *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "block_size"),
        *("enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "disable_log_stats"),
    }
)
"""vLLM's engine arguments that affect speed and memory, but not answers."""


class VllmChat(_SampledModel):
    """A model that vLLM loads into this process (extra `gpu`).

    `engine_arguments` that are not known to affect only speed and memory count as determining
    answers: `quantization` and `dtype`, for example, change them. `gpu_memory_gib` is the memory
    that each GPU must have, which `loupe doctor` checks.
    """

    provider: Literal["vllm"]
    engine_arguments: dict[str, Any] = Field(default_factory=dict)
    gpu_memory_gib: float | None = Field(default=None, gt=0)

    @field_validator("engine_arguments")
    @classmethod
    def _run_no_code(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        refuse_code(arguments)
        return arguments

    @property
    def parameters(self) -> dict[str, Any]:
        """Return everything, besides the model, that determines an answer."""
        engine = {
            name: value for name, value in self.engine_arguments.items() if name not in _OF_SPEED
        }
        return {**super().parameters, **({"engine": engine} if engine else {})}

    @property
    def max_in_flight(self) -> int:
        """Return the number of concurrent requests of the engine, by default that of vLLM."""
        return int(self.engine_arguments.get("max_num_seqs", 256))


ChatModelSpec = Annotated[
    BuiltinRewriter
    | ImportedRewrites
    | BuiltinDescriber
    | BuiltinCaptioner
    | BuiltinContraster
    | OpenAIChat
    | VllmChat
    | PluginChat,
    Field(discriminator="provider"),
]


class _WriterSettings(Record):
    prompt: str
    models: tuple[ChatModelSpec, ...] = Field(min_length=1)
    max_characters: int = Field(default=2000, gt=0)

    @model_validator(mode="after")
    def _tell_models_apart(self) -> Self:
        refs = [str(model.ref) for model in self.models]
        if len(set(refs)) < len(refs):
            raise ValueError(
                f"models must differ in name or revision, since texts carry them as their author; "
                f"got {', '.join(refs)}"
            )
        return self


class RewriteSettings(_WriterSettings):
    """The models that rewrite each description, and the prompt they are given.

    A build that rewrites nothing needs no models.
    """

    prompt: str = "rewrite_description"
    models: tuple[ChatModelSpec, ...] = Field(default=(), min_length=1)


class JudgeSettings(Record):
    """The chat model that gives a second opinion on each rewrite, and the prompt it is given.

    Without `model`, it is the first chat model of `[rewrite]`, at temperature 0; `judge = false` in
    place of the table turns it off. `measured` is what a calibration of this model found; the card
    quotes it if it was with the present version of the prompt.
    """

    model: Annotated[OpenAIChat | VllmChat, Field(discriminator="provider")]
    prompt: str = "judge_rewrite"
    measured: MeasuredJudge | None = IF_KNOWN

    @model_validator(mode="after")
    def _is_of_the_model(self) -> Self:
        if self.measured is not None and self.measured.judge != str(self.model.ref):
            raise ValueError(
                f"measured is for {self.measured.judge}, but the judge is {self.model.ref}; remove "
                f"the table, or measure this judge with: loupe judge calibrate"
            )
        return self


class CaptionJudgeSettings(Record):
    """The chat model that compares captions of ReCoS and CCD with their images, and its prompt.

    It must read images. Without `model`, it is the chat model of `[captioning]`, else the refiner
    of `[contrast]`, at temperature 0; `caption_judge = false` in place of the table turns it off,
    and so does `judge = false`.
    """

    model: Annotated[OpenAIChat | VllmChat, Field(discriminator="provider")]
    prompt: str = "judge_caption"


class DescribeSettings(_WriterSettings):
    """The models that draft descriptions of images without a human one, one draft each."""

    prompt: str = "describe_person"
    models: tuple[ChatModelSpec, ...] = Field(
        default=(
            BuiltinDescriber(),
            BuiltinDescriber(name="loupe-colour-describer-flowing", style="flowing"),
        ),
        min_length=1,
    )


class EntailmentModel(NamedModel):
    """A model of natural-language inference of transformers (extra `torch`), and its thresholds.

    `name` is a model of the hub at `revision`, which is a commit, or a folder whose files have the
    digest `folder_sha256`. A sentence counts as contradicted if its probability to contradict its
    source is at least `contradicted_from`, and as supported if that to follow from it is at least
    `supported_from`. `languages` are those that the model reads (ISO 639-1).
    """

    provider: Literal["transformers"] = "transformers"
    folder_sha256: str | None = None
    device: TorchDevice = "auto"
    contradicted_from: float = Field(default=0.5, gt=0, le=1)
    supported_from: float = Field(default=0.5, ge=0, lt=1)
    languages: tuple[LanguageCode, ...] = Field(default=("en",), min_length=1)

    @model_validator(mode="after")
    def _is_pinned(self) -> "EntailmentModel":
        if self.folder_sha256 is None and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise ValueError(
                f"revision must be a commit (40 hex digits), or folder_sha256 the digest of a "
                f"folder; got {self.revision!r}, which may be another model tomorrow, so that its "
                f"findings could not be repeated"
            )
        return self


class FaithfulnessSettings(Record):
    """When a rewrite counts as a copy, and whether small differences count.

    `near_identical_similarity` is a normalized edit similarity in [0, 1]: a copy is at or above it.
    With `strict`, minor findings (neighbouring steps of a scale, added impressions, closer words)
    also make a rewrite suspect. `min_length_share` is the least number of content words of a
    rewrite per content word of its source: below it, a rewrite is suspect. `entailment` is the
    model of the check of that name.
    """

    near_identical_similarity: float = Field(default=0.97, gt=0, le=1)
    language: LanguageCode = "en"
    strict: bool = False
    min_length_share: float = Field(default=0.4, ge=0, le=1)
    entailment: EntailmentModel | None = IF_KNOWN


TextReaderName = Literal["auto", "pp-ocr", "none"]
"""The reader of texts in images: `auto` is PP-OCR if the extra `ocr` is installed."""


class CaptioningSettings(Record):
    """The models that caption images for tasks, and the thresholds of similarity.

    `model` is a multimodal one; `embedder` determines similarity (BLIP-2 in ReCoS). `text_reader`
    reads the text of rendered images, and the words in photographs of the OCR task.
    """

    model: ChatModelSpec = BuiltinCaptioner()
    prompt: str = "caption_image"
    revision_prompt: str = "caption_revision"
    confusion_prompt: str = "confuse_caption"
    text_reader: TextReaderName = "none"
    embedder: PlainModelSpec = BuiltinStillsEmbedder()
    discriminability: DiscriminabilitySettings = DiscriminabilitySettings()
    confusion: ConfusionSettings = ConfusionSettings()
    near_duplicates: NearDuplicateSettings = NearDuplicateSettings()


class ContrastSettings(Record):
    """Models that propose, find, edit and describe contrastive images (CCD), and thresholds.

    `strategist` and `refiner` are multimodal models; images are sent to them in the size of
    `image_area`. `search` is the service for image search, None to disable it. `embedder`
    determines which result is most similar, whether an edit had the intended effect, and which
    captions fit several images of a group. `content_filter` refuses found and edited images before
    they are stored. `bounds_measured_with` names the embedder for which the
    bounds of `choice` and `edit_check` were calibrated; None if they are not calibrated.
    """

    strategist: ChatModelSpec = BuiltinContraster()
    prompt: str = "contrast_strategies"
    repair_prompt: str = "repair_strategies"
    image_area: ImageArea = ImageArea()
    search: ImageSearchSpec | None = None
    download: DownloadSettings = DownloadSettings()
    content_filter: ContentFilterSpec = ServiceFlags()
    choice: ChoiceSettings = ChoiceSettings()
    near_duplicates: NearDuplicateSettings = NearDuplicateSettings()
    editor: ImageEditorSpec = BuiltinEditor()
    edit_check: EditCheckSettings = EditCheckSettings()
    embedder: PlainModelSpec = BuiltinStillsEmbedder()
    bounds_measured_with: str | None = None
    refiner: ChatModelSpec = BuiltinContraster()
    refinement_prompt: str = "refine_captions"
    refinement_repair_prompt: str = "repair_captions"
    caption_style: StyleLimits = StyleLimits()

    @property
    def has_measured_bounds(self) -> bool:
        """Whether the bounds were calibrated for the embedder."""
        return self.bounds_measured_with == self.embedder.name


class EvaluationSettings(Record):
    """The default models that releases are evaluated with."""

    embedders: tuple[EmbedderSpec, ...] = Field(default=(BuiltinEmbedder(),), min_length=1)


class Profile(Record):
    """Models and thresholds for every stage, under one name."""

    name: str
    description: str
    rewrite: RewriteSettings = RewriteSettings()
    faithfulness: FaithfulnessSettings = FaithfulnessSettings()
    judge: JudgeSettings | None = IF_KNOWN
    caption_judge: CaptionJudgeSettings | None = IF_KNOWN
    describe: DescribeSettings = DescribeSettings()
    tracking: TrackingSettings = TrackingSettings()
    filter: FilterSettings = FilterSettings()
    captioning: CaptioningSettings = CaptioningSettings()
    contrast: ContrastSettings = ContrastSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
