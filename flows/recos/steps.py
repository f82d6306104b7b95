"""Steps of `build-recos` that any pipeline may have: captions, and images that are like others.

They are found by their entry points, as those of other packages are.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from loupe.api.models import chat_model
from loupe.api.pairs import SimilarPair
from loupe.api.parts import OwnRun, Part, Place, in_order_of_content
from loupe.api.steps import Sampling
from loupe.db.decisions import last_agents
from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch,
    fetch_children,
    new_entity,
)
from loupe.flows.engine.model_step import model_settings, run_llm_step
from loupe.flows.engine.runner import Stage, run_each, worked_items
from loupe.flows.engine.scope import Scope
from loupe.flows.recos.caption_validation import Validation, validate_captions
from loupe.flows.recos.captioning import VERSION, Captioning, write_captions
from loupe.flows.recos.confusing import VERSION as CONFUSION_VERSION
from loupe.flows.recos.confusing import ConfusionWriting, confusion_warnings, measured_pairs
from loupe.flows.recos.expanding import deduplicated, expand_images, neighbours_in
from loupe.flows.recos.feasibility import require_criterion
from loupe.flows.recos.run import (
    Judge,
    Pair,
    PairKey,
    Pool,
    captions_of,
    load_written,
    originals_of,
)
from loupe.flows.recos.similar_images import candidates_in, judge_of, match_candidates
from loupe.flows.recos.task_images import nearest_first
from loupe.prompts.loader import load_prompt
from loupe.retrieval.score_matrix import nearest_items
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import UsageError
from loupe.schemas.profile import Profile
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Image
from loupe.schemas.requests import CAPTIONS_OF_AN_IMAGE
from loupe.schemas.retrieval_task import TASK_FORMS, TaskForm
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.validation import nearest_hint
from loupe.schemas.wording import many

_USUAL_TASK = "object"


def _task_called(step: str, name: str) -> RetrievalTask:
    """Return the task of a name.

    Raises:
        UsageError: no task can have it.
    """
    try:
        return RetrievalTask(name)
    except ValueError:
        raise UsageError(f"{step}: {name!r} cannot be the name of a task") from None


def _captioning(run: OwnRun) -> Captioning:
    """Return the models of `[captioning]`, the same for all steps of a run."""
    if "captioning" not in run.shared:
        settings = run.profile.captioning
        model = chat_model(run, settings.model)
        run.shared["captioning"] = Captioning(run.context, model, settings)
    found: Captioning = run.shared["captioning"]
    return found


class _Captioned(Part):
    """A step with the models of `[captioning]`."""

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the captioner, and the embedder that compares captions with images."""
        return [profile.captioning.model, profile.captioning.embedder]


# The images that fit a query best.


class _Choice(Sampling):
    """Keeps the images of each source that are nearest to a text by the embedder of the profile."""

    name = "choose"
    comes_back = "is chosen now"

    def __init__(self, per_source: int, query: str) -> None:
        super().__init__(per_source, "image")
        self._query = query

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the embedder."""
        return [profile.captioning.embedder]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        embedder = profile.captioning.embedder
        return {
            "per_source": self.per_source,
            "query": self._query,
            "embedder": str(embedder.ref),
            "parameters": embedder.parameters,
        }

    def described(self) -> str:
        """Return what it keeps."""
        return f"{self.name}: keeps the {self.per_source:,} nearest to “{self._query}” of a source"

    def refusals(self, run: OwnRun, images: list[StoredEntity]) -> dict[str, str]:
        """Return the images that are not among the nearest."""
        of_source: dict[str, list[StoredEntity]] = defaultdict(list)
        for one in images:
            of_source[one.record(Image).source].append(one)
        models, why = _captioning(run), f"is not among the nearest to “{self._query}”"
        refused: dict[str, str] = {}
        for found in of_source.values():
            left = nearest_first(models, found, self._query)[self.per_source :]
            refused |= {one.id: why for one in left}
        return refused


def choose(per_source: int, *, query: str) -> Part:
    """Return a step that keeps the images nearest to a text, and refuses the others.

    Similarity is that of the embedder of the profile, and each source has its own nearest images.

    Args:
        per_source: the number of images to keep of each source.
        query: what the images show, such as "a harbour with boats".

    Raises:
        UsageError: `per_source` is less than 1, or the query is empty.
    """
    if per_source < 1:
        raise UsageError(f"choose: per_source must be at least 1; got {per_source}")
    if not query.strip():
        raise UsageError("choose: say what the images show (query=…); it is empty")
    return _Choice(per_source, " ".join(query.split()))


# Captions of suitable detail.


class Captions(_Captioned):
    """The captioner of the profile writes captions, and revises those of unsuitable detail.

    Attributes:
        group: the group of the images, if only some are meant.
    """

    version = VERSION
    takes = Image.kind
    makes = (Caption.kind,)
    group: str | None = None

    def __init__(
        self, name: str, form: TaskForm | None = None, count: int = CAPTIONS_OF_AN_IMAGE
    ) -> None:
        self.name = name
        self.form = form or TASK_FORMS[RetrievalTask.OBJECT]
        self.count = count

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        settings = profile.captioning
        return model_settings(
            settings.model,
            load_prompt(settings.prompt),
            revision=load_prompt(settings.revision_prompt).digest,
            embedder=str(settings.embedder.ref),
            discriminability=settings.discriminability.model_dump(mode="json"),
            form=self.form.model_dump(mode="json"),
            per_item=self.count,
        )

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Image -> {self.count} Caption that tell it from similar images"

    def run(self, run: Any) -> None:
        """Write the captions of all images that have none, and validate them."""
        scope, models = self.begin(run), self.models(run)
        found = [one for one in run.find(Image, group=self.group) if one.state != "withdrawn"]
        wanted = scope.inputs(run.store, found)
        images = sorted((one for one in found if one.id in wanted), key=lambda one: one.id)
        require_criterion(models, [one for one in images if one.state in LIVE])
        (settings_id,) = [id_ for role, id_ in scope.links if role is Role.WRITTEN_WITH]
        form_of = self.form_of(run)
        report = write_captions(
            models.model,
            load_prompt(models.settings.prompt),
            settings_id,
            form_of,
            scope,
            count=self.count,
            group=self.group,
        )
        run.add(report)
        of = Validation(run, models, run.dataset, images, (settings_id,), form_of, scope.links)
        self.validate(run, of)

    def begin(self, run: Any) -> Scope:
        """Return which images are inputs, and the links of captions."""
        scope: Scope = run.begin(self)
        return scope

    def models(self, run: Any) -> Captioning:
        """Return the models that write and compare."""
        return _captioning(run)

    def form_of(self, run: Any) -> Callable[[StoredEntity], TaskForm]:  # noqa: ARG002
        """Return what says what the captions of an image are for and about."""
        return lambda _: self.form

    def validate(self, run: Any, of: Validation) -> None:  # noqa: ARG002
        """Validate the captions."""
        validate_captions(of)


def caption(
    task: str = _USUAL_TASK,
    *,
    about: str | None = None,
    per_item: int = CAPTIONS_OF_AN_IMAGE,
    name: str = "caption",
) -> Part:
    """Return a step in which the chat model of the profile writes captions of suitable detail.

    Each caption is compared with the images of the dataset by the embedder. One that fits many of
    them, or says more than its image needs to be found, is revised; what is still so after the last
    round is shown to people at the next gate, and dropped if nobody looks there. The thresholds are
    those of `[captioning.discriminability]` (docs/recos.md#caption-validation).

    Args:
        task: what captions are for: a task of Loupe, such as "object" or "scene", or another name.
        about: what captions are about; needed for another name.
        per_item: the number of captions of an image.
        name: the name of the step.

    Raises:
        UsageError: the task is not known, or `per_item` is less than 1.
    """
    if per_item < 1:
        raise UsageError(f"caption: per_item must be at least 1; got {per_item}")
    named = _task_called("caption", task)
    if about and about.strip():
        return Captions(name, TaskForm(task=named, captions=about), per_item)
    if named not in TASK_FORMS:
        hint = nearest_hint(task, list(map(str, TASK_FORMS)))
        raise UsageError(f"caption: say what captions for {task!r} are about (about=…); {hint}")
    return Captions(name, TASK_FORMS[named], per_item)


# Pairs of similar images.

_CANDIDATES = 100
"""The images nearest to each that may become its partner; others are hardly similar."""


class _Pairing(Part):
    """Pairs images by the embedder of the profile, the most similar two first."""

    takes = Image.kind
    makes = (SimilarPair.kind,)
    forms = (SimilarPair,)

    def __init__(self, name: str) -> None:
        self.name = name

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the embedder."""
        return [profile.captioning.embedder]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return the embedder."""
        embedder = profile.captioning.embedder
        return {"embedder": str(embedder.ref), "parameters": embedder.parameters}

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: the most similar images -> SimilarPair"

    def run(self, run: OwnRun) -> None:
        """Pair the images; a pair of former partners no longer counts."""
        scope = run.begin(self)
        images = in_order_of_content(run.taken(self, scope), {})
        pairs = _most_similar(_captioning(run), images)
        stage = Stage(self.name, self.version, run.dataset, run.plan_of(self))

        def result(number: int, pair: SimilarPair) -> WorkResult:
            parents = [(Role.DERIVED_FROM, id_) for id_ in (pair.first, pair.second)]
            links = [*parents, *scope.links]
            made = new_entity(pair, run.dataset, parents=links, group=pair.first)
            return WorkResult(number, entities=(made,))

        of_seq = {one.id: one.seq for one in images}
        items = [(of_seq[one.first] << 32 | of_seq[one.second], one) for one in pairs]
        run.add(run_each(run.context, stage, sorted(items, key=lambda one: one[0]), result))
        run.keep_groups(self, ((one.first, one.second) for one in pairs))


def _most_similar(models: Captioning, images: Sequence[StoredEntity]) -> list[SimilarPair]:
    """Return pairs of images, each in at most one, the most similar first."""
    if len(images) < 2:
        return []
    rows = models.embed(images)
    length = models.embed_texts([""]).shape[1] if models.has_several_vectors else rows.shape[1]
    same = np.zeros(len(images), np.int64)
    near = nearest_items(
        rows,
        rows,
        min(_CANDIDATES, len(images) - 1),
        dimension=length,
        groups=(same, same),
        excluded=np.arange(len(images)),
    )
    edges = []
    for place, others in enumerate(near.places.tolist()):
        for rank, other in enumerate(others):
            if other >= 0:
                cosine = round(float(near.similarities[place, rank]), 6)
                edges.append((-cosine, min(place, other), max(place, other)))
    taken: set[int] = set()
    pairs = []
    for negative, first, second in sorted(set(edges)):
        if taken.isdisjoint((first, second)):
            taken |= {first, second}
            pair = (images[first].id, images[second].id)
            pairs.append(SimilarPair(first=pair[0], second=pair[1], similarity=-negative))
    return pairs


def pair_similar(*, name: str = "pair_similar") -> Part:
    """Return a step that pairs each image with the one most similar to it, as a `SimilarPair`.

    The most similar two images become a pair first, then the most similar of the others; each image
    is in one pair. Put `near_duplicates` before it, as no caption distinguishes equal images.

    Args:
        name: the name of the step.
    """
    return _Pairing(name)


# Captions to confuse two images with.


class _Confusing(_Captioned):
    """Describes each image of a pair in the words of the captions of the other one."""

    version = CONFUSION_VERSION
    takes = SimilarPair.kind
    needs = (Caption.kind,)
    makes = (Caption.kind,)
    forms = (SimilarPair,)

    def __init__(self, name: str, task: RetrievalTask) -> None:
        self.name = name
        self.task = task

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        settings = profile.captioning
        return model_settings(
            settings.model,
            load_prompt(settings.confusion_prompt),
            embedder=str(settings.embedder.ref),
            confusion=settings.confusion.model_dump(mode="json"),
            task=str(self.task),
        )

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: SimilarPair -> Caption of either image in the words of the other's"

    def run(self, run: OwnRun) -> None:
        """Write the captions that are missing, and check them by the embedder."""
        scope, models = run.begin(self), _captioning(run)
        prompt = load_prompt(models.settings.confusion_prompt)
        found = _Pairs(run, scope)
        if silent := sum(not texts for texts in found.captions.values()):
            run.say(f"{self.name}: {many(silent, 'image')} of pairs left out: without a caption")
        ((_, settings_id),) = scope.links
        links = [(Role.PROMPTED_BY, models.model.store_prompt(prompt).id), *scope.links]

        def links_of(pair: Pair) -> list[tuple[Role, str]]:
            made_of = found.pair_of[pair.key], pair.caption.id
            return [*((Role.DERIVED_FROM, id_) for id_ in made_of), *links]

        writing = ConfusionWriting(
            run=run,
            model=models.model,
            prompt=prompt,
            settings_id=settings_id,
            pairs=found.pairs,
            task_of=lambda _: self.task,
            links_of=links_of,
        )
        run.add(run_llm_step(models.model, writing.step(list(found.pairs.values()))))
        self._check(run, models, found, scope)

    def _check(self, run: OwnRun, models: Captioning, found: "_Pairs", scope: Scope) -> None:
        """Store what speaks against each caption that was not checked yet."""
        ((_, settings_id),) = scope.links
        stage = Stage(f"{self.name}_check", self.version, run.dataset, {"settings": settings_id})
        written = {
            one.entity.seq: (found.pairs[one.pair], one.entity)
            for one in load_written(run)
            if one.pair in found.pairs and one.entity.state in LIVE
        }
        done = worked_items(run.context, stage, list(written))
        left = {seq: one for seq, one in sorted(written.items()) if seq not in done}
        if not left:
            return
        judge = judge_of(models, list(found.images.values()), found.captions)
        checks = measured_pairs(models, judge, list(left.values()))

        def result(number: int, warnings: tuple[str, ...]) -> WorkResult:
            _, caption = left[number]
            parents = [(Role.EXAMINES, caption.id), *scope.links]
            check = CaptionCheck(warnings=warnings)
            made = new_entity(check, run.dataset, parents=parents, group=caption.group)
            return WorkResult(number, entities=(made,))

        items = [
            (seq, confusion_warnings(one, check))
            for (seq, (_, one)), check in zip(left.items(), checks, strict=True)
        ]
        run.add(run_each(run.context, stage, items, result))


class _Pairs:
    """The captions of pairs of images, each with the other image of its pair.

    Attributes:
        images: the images of pairs by id, by content.
        captions: the captions of each image, by its id.
        pairs: each caption with its image and the similar one.
        pair_of: the id of the `SimilarPair`, by the same keys.
    """

    def __init__(self, run: OwnRun, scope: Scope) -> None:
        stored = run.find(SimilarPair, *LIVE)
        both = {one.id: one.record(SimilarPair) for one in stored}
        ids = {id_ for one in both.values() for id_ in (one.first, one.second)}
        found = in_order_of_content(fetch(run.store, ids).values(), {})
        self.images = {image.id: image for image in found}
        described = fetch_children(run.store, ids, Role.DESCRIBES)
        texts = [one for many in described.values() for one in many if one.state in LIVE]
        wanted = scope.inputs(run.store, texts)
        self.captions = {
            image: in_order_of_content(
                [one for one in described[image] if one.id in wanted], self.images
            )
            for image in ids
        }
        self.pairs: dict[PairKey, Pair] = {}
        self.pair_of: dict[PairKey, str] = {}
        for id_, one in both.items():
            for image, similar in ((one.first, one.second), (one.second, one.first)):
                for caption in self.captions[image]:
                    pair = Pair(self.images[similar], self.images[image], caption)
                    self.pairs[pair.key] = pair
                    self.pair_of[pair.key] = id_


def confuse(task: str = _USUAL_TASK, *, name: str = "confuse") -> Part:
    """Return a step that writes captions by which similar images can be confused.

    For each caption of an image of a `SimilarPair`, the chat model of the profile describes the
    other image in the same words as far as they are true, and differs where they are not. A caption
    that may fit both images, by the embedder of the profile, is shown to people at the next gate,
    and dropped if nobody looks there.

    Args:
        task: what captions are for.
        name: the name of the step.

    Raises:
        UsageError: the task has no name.
    """
    return _Confusing(name, _task_called("confuse", task))


# Images that are hard to tell from those that were drawn.


class _Adding(Part):
    """Adds images that were not drawn to the drawn ones."""

    takes = Image.kind

    def __init__(self) -> None:
        self._sampling: Part | None = None

    def placed(self, place: Place) -> None:
        """Find the step that draws.

        Raises:
            UsageError: there is none.
        """
        drawing = [one for one in place.before if isinstance(one, Sampling)]
        if not drawing:
            raise UsageError(
                f"step {self.name!r} adds images that loupe.steps.sample() or "
                f"loupe.steps.choose() left out: put one of them before it"
            )
        self._sampling = drawing[-1]

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the embedder."""
        return [profile.captioning.embedder]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        settings = profile.captioning
        return {
            "embedder": str(settings.embedder.ref),
            "near_duplicates": settings.near_duplicates.model_dump(mode="json"),
        }

    def left_out(self, run: OwnRun) -> dict[str, StoredEntity]:
        """Return the images that were not drawn, by the image of a source that each copies."""
        assert self._sampling is not None  # noqa: S101 - a pipeline places its parts
        refused = {one.id: one for one in run.find(Image, "rejected")}
        agents, agent = last_agents(run.store, list(refused)), run.agent_of(self._sampling)
        undrawn = [one for id_, one in refused.items() if agents.get(id_) == agent]
        return {one: refused[id_] for id_, one in originals_of(run.store, undrawn).items()}

    def add(self, run: OwnRun, made: Mapping[int, tuple[NewEntity, ...]]) -> None:
        """Store what is not stored yet, by its number; former ones no longer count."""
        stage = Stage(self.name, self.version, run.dataset, run.plan_of(self))
        run.add(run_each(run.context, stage, sorted(made.items()), WorkResult))
        run.keep_only(self, Image, {one.id for many in made.values() for one in many})


def _copy(
    original: str, image: StoredEntity, dataset: str, links: Sequence[tuple[Role, str]]
) -> NewEntity:
    """Return an image that was not drawn, as one that is added."""
    return new_entity(
        image.record(Image),
        dataset,
        parents=[(Role.SAMPLED_FROM, original), *links],
        split=image.split,
        group=image.group,
    )


class _AddingSimilar(_Adding):
    """Adds the nearest images, of those that were not drawn, to the drawn ones."""

    name = "add_similar"
    makes = (Image.kind,)

    def __init__(self, neighbours: int) -> None:
        super().__init__()
        self._neighbours = neighbours

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        return {**super().values(profile), "neighbours": self._neighbours}

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Image -> the {self._neighbours} most like it that were not drawn"

    def run(self, run: OwnRun) -> None:
        """Add the neighbours that are not added yet."""
        scope, models = run.begin(self), _captioning(run)
        drawn = originals_of(run.store, run.taken(self, scope))
        left = self.left_out(run)
        pool = Pool(run, models, run.shared["origins"])
        members = sorted(pool.place.keys() & set(drawn.values()))
        excluded = pool.place.keys() - set(members) - left.keys()
        near = neighbours_in(pool, members, self._neighbours, excluded)
        embedder = str(models.embedder.ref)
        found = expand_images(near, self._neighbours, partial(deduplicated, pool), embedder)
        doubtful = {one for pair in found.doubtful for one in (pair.first, pair.second)}
        new = [one for one in found.images if one not in doubtful]
        if alike := found.report.outside - len(new):
            run.say(f"{self.name}: {many(alike, 'similar image')} left out as possible duplicates")
        copies = {left[one].seq: (_copy(one, left[one], run.dataset, scope.links),) for one in new}
        self.add(run, copies)


class _Matching(_Adding):
    """Adds to each drawn image one of its own that is hard to tell from it."""

    name = "match_similar"
    makes = (Image.kind, SimilarPair.kind)
    forms = (SimilarPair,)
    _is_decided = False

    def placed(self, place: Place) -> None:
        """Find the step that draws, and whether a gate before it decides on captions."""
        super().placed(place)
        self._is_decided = any(one.gates and Caption.kind in one.needs for one in place.before)

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        confusion = profile.captioning.confusion.model_dump(mode="json")
        return {**super().values(profile), "confusion": confusion}

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Image -> the image most like it that was not drawn, and SimilarPair"

    def run(self, run: OwnRun) -> None:
        """Match the images that are not matched yet."""
        scope, models = run.begin(self), _captioning(run)
        taken = in_order_of_content(run.taken(self, scope), {})
        drawn = {original: id_ for id_, original in originals_of(run.store, taken).items()}
        images = {one.id: one for one in taken if one.id in drawn.values()}
        left = self.left_out(run)
        pool = Pool(run, models, run.shared["origins"])
        closed = {one for one in pool.place if one not in left}
        found = candidates_in(pool, drawn, closed, self._judge(run, scope, models, images))
        for original, near in found.items():
            split = images[drawn[original]].split
            found[original] = [one for one in near if left[one.image].split == split]
        matches = match_candidates(pool, found)
        if alone := len(matches.rejections):
            run.say(f"{self.name}: {many(alone, 'image')} without a similar image of their own")
        made = {}
        for original, match in matches.found.items():
            image, other = images[drawn[original]], left[match.candidate.image]
            copy = _copy(match.candidate.image, other, run.dataset, scope.links)
            cosine = round(match.candidate.similarity, 6)
            pair = SimilarPair(first=image.id, second=copy.id, similarity=cosine)
            links = [(Role.DERIVED_FROM, image.id), (Role.DERIVED_FROM, copy.id), *scope.links]
            paired = new_entity(pair, run.dataset, parents=links, group=image.id)
            made[image.seq << 32 | other.seq] = (copy, paired)
        self.add(run, made)

    def _judge(
        self, run: OwnRun, scope: Scope, models: Captioning, images: Mapping[str, StoredEntity]
    ) -> Judge | None:
        """Return what says whether a caption may fit another image.

        Captions that a later gate decides on do not count: the matches would follow its decisions.
        """
        if not self._is_decided:
            return None
        accepted = captions_of(run.store, list(images))
        wanted = scope.inputs(run.store, [one for many in accepted.values() for one in many])
        captions = {
            id_: in_order_of_content(
                [one for one in accepted.get(id_, ()) if one.id in wanted], images
            )
            for id_ in images
        }
        return judge_of(models, list(images.values()), captions) if any(captions.values()) else None


def add_similar(neighbours: int = 1) -> Part:
    """Return a step that adds, to each drawn or chosen image, those that are most similar to it.

    They are images of the same source that were not drawn. One that has, or may have, the content
    of another image is left out. Later steps treat them like the drawn ones, so captions must tell
    the two apart.

    Args:
        neighbours: how many of the most similar images are looked at for each.

    Raises:
        UsageError: `neighbours` is less than 1.
    """
    if neighbours < 1:
        raise UsageError(f"add_similar: neighbours must be at least 1; got {neighbours}")
    return _AddingSimilar(neighbours)


def match_similar() -> Part:
    """Return a step that adds, to each drawn or chosen image, one that is hard to tell from it.

    It is the most similar image of the same source and split that was not drawn; the most similar
    two are matched first, and no image is added twice. What may have the content of another image
    is passed over, and so are images that an accepted caption may fit, if a gate of captions is
    before this step. Makes a `SimilarPair` of each image and its match, for `confuse`. The run
    counts the images without a match, which stay.
    """
    return _Matching()
