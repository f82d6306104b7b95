"""Build files: the sources of a dataset, its sample or its split, its gates."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from loupe.schemas.base import IF_ANY, IF_KNOWN, DatasetName, Record, Split, Version
from loupe.schemas.columns import TableColumns, listed
from loupe.schemas.encoding import ReleasedImages
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.faces import Faces
from loupe.schemas.languages import LanguageCode
from loupe.schemas.licences import nearest_licence
from loupe.schemas.plugins import plugins
from loupe.schemas.records import Granularity, Method
from loupe.schemas.retrieval_task import RENDERED_TASKS, TASK_FORMS, TaskForm
from loupe.schemas.shortcuts import ShortcutQuestion
from loupe.schemas.similarity import TEST_SHARE
from loupe.schemas.taxonomy import RetrievalTask, Tier
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import PlacedPath, nearest_hint, placed

Gate = Annotated[
    str, Field(pattern=r"^(required|auto|sample:(0|1|0?\.[0-9]+|[01]\.0*)(:-?[0-9]+)?)$")
]
"""A policy for the review of a step, as `loupe.annotate.queues` reads it."""
LICENSED_IMAGES = "licensed-images"
"""The format of sources in which each image has a licence of its own."""
RENDERED_IMAGES = "rendered"
"""The format of sources of `build-recos` whose images have a known truth."""
PEOPLE_CHECKS = ("form", "support", "person")
"""The checks of rewrites of descriptions of people."""
_POOL_OF_EACH = 8


def _placed_other(named: str, info: ValidationInfo) -> str:
    """Resolve something a release is compared with; a folder may also be given as `NAME=FOLDER`."""
    name, separator, path = named.rpartition("=")
    found = placed(Path(path), info)
    is_folder = os.path.isdir(found)  # noqa: PTH112 - pathlib raises where a name is too long
    return f"{name}{separator}{found}" if is_folder else named


def _placed_video(address: str, info: ValidationInfo) -> str:
    """Resolve the address of videos; one with a scheme (`s3://…`) is not changed."""
    return address if is_remote(address) else str(placed(Path(address), info))


def _placed_address(address: object, info: ValidationInfo) -> object:
    """Resolve a path; an address with a scheme (`s3://…`), and an empty text, are not changed."""
    if isinstance(address, str) and (is_remote(address) or not address):
        return address
    return placed(Path(address), info) if isinstance(address, str | Path) else address


def _known_shortcut(name: str) -> str:
    """Return what a build accepts, if there is such a question to blind opponents."""
    questions = get_args(ShortcutQuestion)
    question = name.partition(" by ")[0]
    if question not in questions:
        raise ValueError(
            f"must be a question to blind opponents, or QUESTION by OPPONENT; "
            f"{nearest_hint(question, questions)}"
        )
    return name


AcceptedShortcut = Annotated[str, AfterValidator(_known_shortcut)]
"""A shortcut that a build accepts: `original captions`, or `original captions by wording`."""


def is_remote(address: str | Path) -> bool:
    """Tell whether an address has a scheme, such as `s3://…`, instead of being a path."""
    return isinstance(address, str) and "://" in address


Address = Annotated[Path | str, BeforeValidator(_placed_address)]
"""A path, or an address that fsspec reads, such as `s3://bucket/shop.csv`."""


def _one_of_the_splits(split: object) -> object:
    """Refuse the name of a column where a split is stated."""
    if isinstance(split, str) and split not in get_args(Split):
        splits = ", ".join(get_args(Split))
        raise ValueError(f"must be one of {splits}; a column of splits is split_column = {split!r}")
    return split


def _require_spelt(licence: str | None, permitted_by: str | None = None) -> None:
    """Refuse a misspelt licence, under which nothing could be released, before it is stored.

    Raises:
        ValueError: it is no known licence, similar to one, and no reason permits such terms.
    """
    if licence and permitted_by is None and (near := nearest_licence(licence)):
        raise ValueError(
            f"licence {licence!r} is no known one; did you mean {near!r}? If these are terms of "
            f"their own, state why they permit a release (permitted_by)"
        )


class SourceSpec(TableColumns):
    """The annotations of images with the folder that their paths are relative to, and the columns.

    Both are paths or addresses (`Address`). Without `images`, it is the folder of the annotations.

    For a source that is imported already, licence, citation and homepage correct its terms.

    Attributes:
        name: the source in the release; it is imported into a dataset of this name.
        format: the format of the annotation file.
        annotations: the annotation file.
        images: the folder that image paths are relative to; None for that of the annotations.
        split: the split to draw from; if stated, that of all records of a file without splits.
        granularity: how detailed the captions are; None for that of the format.
        least_side_px: images with a shorter side are quarantined.
        greatest_aspect: images whose longer side is more than this many times the shorter one are
            quarantined.
        identities: the number of identities to draw; None for that of the build.
        images_per_identity: the maximum number of images per identity; None for all.
        licence: the terms of the images; None for those of the format.
        citation: the publication to cite; None for that of the format.
        homepage: the page of the collection; None for that of the format.
        correction: why these terms differ from those that were imported; it is published.
        permitted_by: why terms in free text, which no program can check, permit the release; it is
            published.
        faces: what is done to faces before images are stored: `keep`, `blur` or `replace`; by
            default that of the build. Another choice makes it another source.
    """

    name: DatasetName
    format: str
    annotations: Address
    images: Address = ""
    split: Annotated[Split, BeforeValidator(_one_of_the_splits)] = "test"
    granularity: Granularity | None = None
    least_side_px: int = Field(default=8, gt=0)
    greatest_aspect: float = Field(default=20, ge=1, allow_inf_nan=False)
    identities: int | None = Field(default=None, gt=0)
    images_per_identity: int | None = Field(default=None, gt=0)
    licence: str | None = None
    citation: str | None = None
    homepage: str | None = None
    correction: str | None = Field(default=None, pattern=r"\S")
    permitted_by: str | None = Field(default=None, pattern=r"\S")
    faces: Faces = "keep"

    @model_validator(mode="after")
    def _licence_is_spelt(self) -> Self:
        _require_spelt(self.licence, self.permitted_by)
        return self

    @property
    def columns(self) -> TableColumns | None:
        """Return the columns that are stated, if any."""
        stated = self.model_fields_set & TableColumns.model_fields.keys()
        found = {name: getattr(self, name) for name in sorted(stated)}
        return TableColumns(**found) if found else None

    @property
    def has_own_licences(self) -> bool:
        """Tell whether each image states its licence, and the source need not."""
        is_stated = self.licence_column is not None and self.licence is None
        return is_stated or format_name(self.format) == LICENSED_IMAGES


def _known_check(name: str) -> str:
    """Return the name of a check that an installed package adds."""
    known = plugins("checks")
    if name not in known:
        raise ValueError(
            f"no installed package adds the check {name!r}; {nearest_hint(name, known)}"
        )
    return name


class VideoSourceSpec(Record):
    """A collection of videos, and their terms of use.

    Attributes:
        name: the source in the release; it is imported into a dataset of this name.
        videos: files, folders, patterns such as `street/*.mp4`, image sequences (`img1/%06d.jpg`,
            or their folder), lists (`.txt`, one address a line) or addresses that fsspec reads.
        licence: the terms; required, because a collection of videos has no other metadata.
        citation: the publication to cite.
        homepage: the page of the collection.
        correction: why these terms differ from those that were imported; it is published.
        permitted_by: why terms in free text permit the release; it is published.
        faces: what is done to faces before crops are stored, by default that of the build.
        detections: a folder with the boxes of people, a MOTChallenge file for each video; no
            detector is used then.
        every_nth_frame: only every n-th frame is read; None for the setting of the profile.
        frame_rate: frames per second; None for that of each video.
    """

    name: DatasetName
    videos: Annotated[
        tuple[Annotated[str, AfterValidator(_placed_video)], ...],
        BeforeValidator(listed),
        Field(min_length=1),
    ]
    licence: str = Field(pattern=r"\S")
    citation: str = ""
    homepage: str | None = None
    correction: str | None = Field(default=None, pattern=r"\S")
    permitted_by: str | None = Field(default=None, pattern=r"\S")
    faces: Faces = "keep"
    detections: PlacedPath | None = None
    every_nth_frame: int | None = Field(default=None, ge=1)
    frame_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _licence_is_spelt(self) -> Self:
        _require_spelt(self.licence, self.permitted_by)
        return self


def _with_faces(source: Any, faces: Any) -> Any:
    """Return a source, or the values of one, with what is done to faces unless it states that."""
    if isinstance(source, dict):
        return {"faces": faces} | source
    is_stated = not isinstance(source, Record) or "faces" in source.model_fields_set
    return source if is_stated else source.model_copy(update={"faces": faces})


class Build(Record):
    """The keys that the build files of all pipelines share.

    A build file also states who reviews at each gate (`loupe.flows.engine.pipeline.load_build`):
    with the keys of the gates, or with `gate` for all of them. Builds in Python may leave that out.

    Attributes:
        dataset: the dataset that is built. It differs from the datasets of the sources, which are
            imported completely under their own names.
        seed: the seed of all draws.
        against: releases, datasets and folders that a release is compared with.
        max_unusable_share: maximum share of unusable answers of a model; above it, nothing is
            released.
        images: how images are released: `stored` (as they are) or the settings of one encoder for
            all of them. By default, benchmarks of tasks and of contrasts have an encoder.
        accepted_shortcuts: shortcuts that do not stop a release, by question or by opponent, such
            as `source of a caption` (docs/shortcuts.md).
        faces: what is done to faces before images of the sources, and images that are found or
            edited, are stored: `keep`, `blur` or `replace` (docs/people.md).
        strict: refuse a release that lacks something the build asked for.
        sources: the sources of the dataset.
    """

    dataset: DatasetName
    seed: int = 0
    against: Annotated[
        tuple[Annotated[str, Field(pattern=r"\S"), AfterValidator(_placed_other)], ...],
        BeforeValidator(listed),
    ] = ()
    max_unusable_share: float = Field(default=0.5, gt=0, le=1)
    images: ReleasedImages | None = IF_KNOWN
    accepted_shortcuts: Annotated[tuple[AcceptedShortcut, ...], BeforeValidator(listed)] = IF_ANY
    faces: Faces = "keep"
    strict: bool = False
    sources: tuple[SourceSpec | VideoSourceSpec, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _set_all_gates(cls, values: Any) -> Any:
        """Let `gate` state the policy of every gate that has no key of its own in the file.

        Spot checks (gates with the default None) are additional work and need a key of their own.
        """
        if not isinstance(values, dict) or "gate" not in values:
            return values
        others = {key: value for key, value in values.items() if key != "gate"}
        needed = [key for key in cls.gate_keys() if cls.model_fields[key].default is not None]
        return dict.fromkeys(needed, values["gate"]) | others

    @model_validator(mode="before")
    @classmethod
    def _treat_faces_of_sources(cls, values: Any) -> Any:
        """Let `faces` of the build count for every source that has no key of its own."""
        if not isinstance(values, dict) or "faces" not in values or "sources" not in values:
            return values
        faces, sources = values["faces"], values["sources"]
        if not isinstance(sources, list | tuple):
            return values
        return values | {"sources": [_with_faces(one, faces) for one in sources]}

    @classmethod
    def gate_keys(cls) -> tuple[str, ...]:
        """Return the keys of the policies of its gates; a gate with the default None is off."""
        return tuple(name for name in cls.model_fields if name.endswith("gate"))

    @property
    def gates(self) -> dict[str, str]:
        """The policy of each gate that is on and that this build reaches, by its key."""
        stated = {key: getattr(self, key) for key in self.gate_keys()}
        return {key: policy for key, policy in stated.items() if policy is not None}

    @model_validator(mode="after")
    def _keep_datasets_apart(self) -> Self:
        names = [source.name for source in self.sources]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"sources must differ in name; got {', '.join(twice)} twice")
        if self.dataset in names:
            raise ValueError(f"dataset must not have the name of a source; got {self.dataset!r}")
        return self


class UFine3CBuild(Build):
    """A UFine3C-style evaluation set (UFineBench, section 3.3).

    The paper takes 750 test identities of each of three sources. CUHK-PEDES and UFine6926 have
    about 3 and 4 images an identity, ICFG-PEDES about 20. With at most 3 images, and with the
    original descriptions kept in addition to their two rewrites, the published totals (7,446
    images, 37,939 texts) are reproduced within 1 %.

    A gate is `required` (annotators review all), `sample:RATE` (annotators review what is suspected
    and this share of the others) or `auto` (no review; suspects are dropped and the release is
    marked *unreviewed*).

    Attributes:
        checks: the checks of rewrites, in their order (`loupe.checks.rewrites`); `person` reads
            English descriptions of people.
        version: the version of the release.
        identities_per_source: the number of identities to draw from each source.
        images_gate: who looks at drawn images before models are paid for; None: nobody.
        originals_gate: who reviews captions of the sources that a check flagged; with `auto` they
            are left out.
        rewrites_gate: who reviews rewrites.
    """

    dataset: DatasetName = "ufine3c"
    checks: Annotated[
        tuple[Annotated[str, AfterValidator(_known_check)], ...], Field(min_length=1)
    ] = PEOPLE_CHECKS
    version: Version = "0.1.0"
    identities_per_source: int = Field(default=750, gt=0)
    images_gate: Gate | None = None
    originals_gate: Gate = "auto"
    rewrites_gate: Gate = "auto"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)


class UFine6926Build(Build):
    """A UFine6926-style dataset, made from videos (UFineBench, section 3.2).

    A gate is `required` (annotators, all), `sample:RATE` (annotators, this share) or `auto` (no
    annotators: what the filter suspects is left out, descriptions are drafted by the models of the
    profile, and the release states it).

    Attributes:
        version: the version of the release.
        test_share: the share of identities for testing; 2,000 of 6,926 in the paper.
        tracklets_gate: who reviews tracklets.
        descriptions_gate: who describes images.
        drafts: one of the annotators of an image starts from a draft of the first model of
            `[describe]`; in the paper, nobody does.
        drawn: the people are drawings, which a pose model does not recognise: none is used.
    """

    dataset: DatasetName = "ufine6926"
    version: Version = "0.1.0"
    test_share: float = Field(default=TEST_SHARE, ge=0, le=1)
    tracklets_gate: Gate = "auto"
    descriptions_gate: Gate = "auto"
    drafts: bool = False
    drawn: bool = False
    sources: tuple[VideoSourceSpec, ...] = Field(min_length=1)


class TaskSpec(Record):
    """The first images of a task: images of a source, or images drawn for the task.

    Images of a source are selected by `names`, by `query`, or at random: among those with at least
    one of `categories`, if the source has them, or among all. `file` names a TOML file with further
    keys.

    Attributes:
        task: a task of the paper, or a new name.
        captions: what captions focus on; required for a task that is not in `schemas/tasks/`.
        known: what is known about the images: `texts` that are read in them, or `licences` that
            their source states (see `TaskForm`).
        images: the number of images in v0.
        source: the source of the images; None to draw them, if the task supports it.
        names: a file with the paths of the images to choose from, one per line.
        query: take the images most similar to this text, by the embedder of the profile.
        categories: take images with one of these categories of the source.
        pool: the number of images to draw; those that are not chosen serve for confusing captions
            and as distractors.
        further_pairs: the number of texts to translate that the captioning model writes, in
            addition to the built-in ones.
    """

    task: RetrievalTask
    captions: str | None = Field(default=None, pattern=r"\S", exclude_if=lambda one: one is None)
    known: Literal["texts", "licences"] | None = IF_KNOWN
    images: int = Field(gt=0)
    source: DatasetName | None = None
    names: PlacedPath | None = None
    query: str | None = Field(default=None, pattern=r"\S")
    categories: Annotated[
        tuple[Annotated[str, Field(pattern=r"\S")], ...], BeforeValidator(listed)
    ] = ()
    pool: int | None = Field(default=None, gt=0)
    further_pairs: int = Field(default=0, ge=0, le=500, exclude_if=lambda count: count == 0)

    @model_validator(mode="before")
    @classmethod
    def _with_its_file(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, dict) or "file" not in values:
            return values
        path = placed(Path(values["file"]), info)
        try:
            return read_toml(path, f"task file {path}") | {
                key: value for key, value in values.items() if key != "file"
            }
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    @property
    def form(self) -> TaskForm:
        """Return the task's form: that of the build, or the one in `schemas/tasks/`."""
        known = TASK_FORMS.get(self.task)
        values = known.model_dump() if known else {"task": self.task}
        stated = {"captions": self.captions, "known": self.known}
        return TaskForm.model_validate(values | {key: one for key, one in stated.items() if one})

    @model_validator(mode="after")
    def _is_described(self) -> Self:
        if self.captions is None and self.task not in TASK_FORMS:
            hint = nearest_hint(self.task, list(map(str, TASK_FORMS)))
            raise ValueError(
                f"task {self.task}: captions is missing: what its captions are about; {hint}"
            )
        return self

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> Self:
        if self.source is None and self.task not in RENDERED_TASKS:
            drawn = ", ".join(RENDERED_TASKS)
            raise ValueError(f"task {self.task}: source is missing; only {drawn} can be drawn")
        ways = [name for name in ("names", "query", "categories") if getattr(self, name)]
        if self.source is None and ways:
            raise ValueError(f"task {self.task}: names, query and categories need a source")
        if self.source is not None and self.pool is not None:
            raise ValueError(f"task {self.task}: pool is for tasks without a source")
        if self.further_pairs and (self.source or self.task is not RetrievalTask.TRANSLATION):
            drawn = f"{RetrievalTask.TRANSLATION} without a source"
            raise ValueError(f"task {self.task}: further_pairs is for {drawn}")
        if len(ways) > 1:
            raise ValueError(f"task {self.task}: give {' or '.join(ways)}, not both")
        return self

    @property
    def drawn(self) -> int:
        """Return the number of images to draw, if they are drawn."""
        return max(self.images, self.pool or _POOL_OF_EACH * self.images)


class RecosBuild(Build):
    """A ReCoS-style benchmark (ReCoS, section 3), in its versions up to `last`.

    v0 has the first images of the tasks, with five captions each. v1 adds a similar image of the
    same source to each, with confusing captions. v2 adds `neighbours` images for each of these,
    without captions. They are released as 0.REVISION, 1.REVISION and 2.REVISION. A gate is
    `required`, `sample:RATE` or `auto` (no review: uncertain captions are dropped, and images are
    kept).

    Attributes:
        revision: the last two numbers of the versions.
        last: the version to stop at.
        neighbours: the number of images of v2 for each image of v1.
        further_rounds: the maximum number of rounds after a gate in which captions that were not
            accepted, and images without captions, are replaced.
        selection_gate: who checks that images from sources fit their task; with `auto`, all are
            taken to fit.
        captions_gate: who reviews captions.
        confusions_gate: who reviews captions that may fit two images.
        duplicates_gate: who reviews pairs of images of v2 that may be the same.
        tasks: the tasks, at least one.
    """

    dataset: DatasetName = "recos"
    revision: str = Field(default="1.0", pattern=r"^[0-9]+\.[0-9]+$")
    last: Tier = "v2"
    neighbours: int = Field(default=20, gt=0)
    further_rounds: int = Field(default=3, ge=0)
    selection_gate: Gate = "auto"
    captions_gate: Gate = "auto"
    confusions_gate: Gate = "auto"
    duplicates_gate: Gate = "auto"
    sources: tuple[SourceSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sources_fit_tasks(self) -> Self:
        formats = {one.name: format_name(one.format) for one in self.sources}
        for task in self.tasks:
            if task.source is None:
                continue
            if task.source not in formats:
                raise ValueError(f"tasks must name sources of this build; got {task.source!r}")
            # pictures of persons and buildings may be protected, so each needs a licence
            if task.form.known == "licences" and formats[task.source] != LICENSED_IMAGES:
                raise ValueError(
                    f"task {task.task}: its source must state a licence for each image (format "
                    f"{LICENSED_IMAGES!r}); got {task.source!r} in format {formats[task.source]!r}"
                )
        return self

    @model_validator(mode="after")
    def _tables_of_a_task_agree(self) -> Self:
        first: dict[RetrievalTask, TaskSpec] = {}
        for number, task in enumerate(self.tasks):
            if first.setdefault(task.task, task).form != task.form:
                raise ValueError(f"task {task.task}: its tables differ in captions or known")
            if (task.task, task.source) in ((one.task, one.source) for one in self.tasks[:number]):
                raise ValueError(f"task {task.task}: two tables take images of the same source")
        return self

    @property
    def gates(self) -> dict[str, str]:
        """The policy of each gate up to version `last`, by its key."""
        later = {"confusions_gate": "v1", "duplicates_gate": "v2"}
        return {
            key: policy
            for key, policy in super().gates.items()
            if self.last >= later.get(key, "v0")
        }

    def version(self, tier: Tier) -> str:
        """Return the version number that a tier is released as."""
        return f"{tier[1:]}.{self.revision}"


class CcdBuild(Build):
    """A CCD-style benchmark: images in groups that differ in one labelled detail (CCD, section 2).

    A gate is `required`, `sample:RATE` or `auto` (no review; flagged items are dropped and the
    release is marked *unreviewed*).

    Attributes:
        version: the version of the release.
        anchors: the number of images to draw from each source; None for all.
        methods: how to obtain contrastive images, in order: if one gives no accepted image for a
            strategy, the next is tried.
        search_folder: a folder to search instead of a service on the web; each image has a licence,
            in the format of `licensed-images`.
        second_language: a language (ISO 639-1) in which every caption is written as well.
        further_rounds: the maximum number of rounds in which the model proposes strategies to
            replace those without an accepted image.
        keep_lone_anchors: also refine and release anchors without a contrastive image, so that the
            queries are those of the original dataset.
        images_gate: who looks at drawn anchors before models are paid for; None: nobody.
        strategies_gate: who reviews strategies.
        candidates_gate: who reviews images that were found or edited.
        groups_gate: who reviews the captions of whole groups.
    """

    dataset: DatasetName = "ccd"
    version: Version = "0.1.0"
    seed: int = Field(default=0, ge=0)
    anchors: int | None = Field(default=None, gt=0)
    methods: tuple[Method, ...] = Field(default=("search", "edit"), min_length=1)
    search_folder: PlacedPath | None = None
    second_language: LanguageCode | None = None
    further_rounds: int = Field(default=0, ge=0)
    keep_lone_anchors: bool = False
    images_gate: Gate | None = None
    strategies_gate: Gate = "auto"
    candidates_gate: Gate = "auto"
    groups_gate: Gate = "auto"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _methods_differ(self) -> Self:
        if len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods must differ; got {', '.join(self.methods)}")
        return self


def format_name(written: str) -> str:
    """Return a format's name; case, surrounding whitespace and underscores do not matter."""
    return written.strip().casefold().replace("_", "-")
