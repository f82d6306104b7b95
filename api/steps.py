"""`loupe.steps`: steps that others have written; those of plugins appear under their names."""

import ast
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from loupe.api.images import brightness, contrast, sharpness
from loupe.api.llm import ModelStep, llm_step
from loupe.api.models import chat_model
from loupe.api.parts import (
    OwnRun,
    Part,
    in_order_of_content,
    originals_of,
    pending,
)
from loupe.api.signatures import checking_arguments
from loupe.api.step import Step, StepSettings
from loupe.api.values import Caption, Image, Rejection
from loupe.checks.defects import text_defect
from loupe.checks.rewrites import PlainCheck, TextCheck, judge_rewrite, load_check
from loupe.checks.support import unsupported_parts
from loupe.checks.text import Defect, Form
from loupe.db.decisions import decide, last_agents
from loupe.db.entities import (
    LIVE,
    NewDecision,
    StoredEntity,
    WorkResult,
    new_entity,
)
from loupe.flows.engine.contamination import fingerprint_images, fingerprints_of
from loupe.flows.engine.embedding import CachedEmbedder, of_texts, pinned, stored_image
from loupe.flows.engine.model_step import Ask, LLMStep, Parsed, model_settings, run_llm_step
from loupe.flows.engine.rejections import images_of
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.scope import Scope
from loupe.flows.judgements import read_judgement, request_judgement
from loupe.prompts.loader import load_prompt
from loupe.retrieval.similarity.near_duplicates import find_near_duplicates
from loupe.retrieval.similarity.spectrum import Colours, small_colours
from loupe.schemas import records
from loupe.schemas.base import digest_of
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import UsageError
from loupe.schemas.faithfulness import RewritePair
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.profile import FaithfulnessSettings, JudgeSettings, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.similarity import NearDuplicateSettings
from loupe.schemas.validation import fault_of, nearest_hint
from loupe.schemas.wording import many

# Images that are refused for what all of them are together.


class _Choosing(Part):
    """Refuses images; those that it refused before count again, so it depends on all alike."""

    version = "1"
    takes = records.Image.kind
    decides = True
    comes_back = "nothing speaks against it any more"

    @abstractmethod
    def refusals(self, run: OwnRun, images: list[StoredEntity]) -> dict[str, str]:
        """Return why images are refused, by id; they are sorted by their content."""

    def run(self, run: OwnRun) -> None:
        """Refuse the images that are to go, and bring those back that are not."""
        scope = run.begin(self)
        images = in_order_of_content(run.taken(self, scope), {})
        rejected = [one.id for one in images if one.state == "rejected"]
        agents = last_agents(run.store, rejected)
        refused = self.refusals(run, images)
        decisions: list[NewDecision] = []
        for one in images:
            if one.id in refused and one.state != "rejected":
                decisions.append(NewDecision(one.id, "reject", scope.agent, refused[one.id]))
            elif one.id not in refused and agents.get(one.id) == scope.agent:
                decisions.append(NewDecision(one.id, "reopen", scope.agent, self.comes_back))
        decide(run.store, decisions)
        run.is_fresh = run.is_fresh and not decisions


# Near-duplicates.


class _NearDuplicates(_Choosing):
    """Keeps one image of each content, the one with the most pixels."""

    name = "near_duplicates"
    version = "2"
    comes_back = "shows the same as no kept image"

    def __init__(self, settings: NearDuplicateSettings) -> None:
        self.thresholds = settings

    def values(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return its thresholds."""
        return self.thresholds.model_dump(mode="json")

    def described(self) -> str:
        """Return what it does."""
        return "near_duplicates: keeps one of several images that show the same"

    def chosen(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return the thresholds that are not the usual ones."""
        return self.thresholds.model_dump(mode="json", exclude_defaults=True)

    def refusals(self, run: OwnRun, images: list[StoredEntity]) -> dict[str, str]:
        """Return the images that are like a kept one."""
        run.add(fingerprint_images(run.context, run.dataset, (*LIVE, "rejected")))
        known = fingerprints_of(run.store, [one.id for one in images])
        by_id = {one.id: one for one in images}

        def colours_of(id_: str) -> Colours | None:
            return small_colours(stored_image(run.context.blobs, by_id[id_]).read())

        found = find_near_duplicates(known, self.thresholds, colours_of=colours_of)
        dropped: dict[str, str] = {}
        for cluster in found.clusters:
            kept = by_id[cluster.kept].record(records.Image).file_path
            for gone in cluster.members[1:]:
                dropped[gone] = f"shows the same as {kept}"
        if dropped:
            left_out = many(len(dropped), "image")
            run.say(f"near_duplicates: {left_out} left out; see loupe quarantine {run.dataset}")
        if found.doubtful:
            pairs = many(len(found.doubtful), "pair")
            run.say(f"near_duplicates: {pairs} of images that look alike are in doubt and kept")
        return dropped


@checking_arguments
def near_duplicates(**thresholds: Any) -> Part:
    """Return a step that keeps one of several images that show the same (docs/near-duplicates.md).

    Raises:
        UsageError: there is no such threshold, or it has a wrong value.
    """
    try:
        return _NearDuplicates(NearDuplicateSettings(**thresholds))
    except ValidationError as error:
        raise UsageError(f"near_duplicates: {fault_of(error, NearDuplicateSettings)}") from error


# Samples.


class Sampling(_Choosing):
    """Draws images, or identities with all their images, of each source."""

    name = "sample"
    comes_back = "is drawn now"

    def __init__(self, per_source: int, by: str) -> None:
        self.per_source = per_source
        self._by = by

    def values(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return what is drawn."""
        return {"per_source": self.per_source, "by": self._by}

    def described(self) -> str:
        """Return what it draws."""
        noun = "identities" if self._by == "identity" else "images"
        return f"sample: draws {self.per_source:,} {noun} of each source"

    def refusals(self, run: OwnRun, images: list[StoredEntity]) -> dict[str, str]:
        """Return the images that are not drawn."""
        units: dict[str, set[str]] = defaultdict(set)
        unit_of: dict[str, str] = {}
        for one in images:
            image = one.record(records.Image)
            named = image.identity if self._by == "identity" else image.file_path
            unit = digest_of("sample", str(run.build.seed), image.source, named)
            units[image.source].add(unit)
            unit_of[one.id] = unit
        drawn: set[str] = set()
        for found in units.values():
            drawn.update(sorted(found)[: self.per_source])
        return {id_: "is not drawn" for id_, unit in unit_of.items() if unit not in drawn}


@checking_arguments
def sample(per_source: int, *, by: Literal["identity", "image"] = "identity") -> Part:
    """Return a step that draws identities or images from each source; it refuses the others.

    The draw depends on the seed of the pipeline and on the items before this step.

    Args:
        per_source: the number to draw from each source.
        by: "identity", with all its images, or "image".

    Raises:
        UsageError: `per_source` is less than 1, or `by` is neither "identity" nor "image".
    """
    if per_source < 1:
        raise UsageError(f"sample: per_source must be at least 1; got {per_source}")
    if by not in ("identity", "image"):
        raise UsageError(f"sample: by must be 'identity' or 'image'; got {by!r}")
    return Sampling(per_source, by)


# Vectors.


class _Embedding(Part):
    """Stores the vectors of images and captions, for search and the explorer."""

    name = "embed"
    version = "1"

    def specs(self, profile: Profile) -> list[NamedModel]:
        """Return the embedder."""
        return [profile.captioning.embedder]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return the embedder."""
        return {"embedder": str(profile.captioning.embedder.ref)}

    def described(self) -> str:
        """Return what it does."""
        return "embed: vectors of images and captions, for search and the explorer"

    def run(self, run: OwnRun) -> None:
        """Embed the images and the captions that have no vector yet."""
        scope = run.begin(self)
        model = pinned(run.profile.captioning.embedder)
        images = CachedEmbedder(run.store, model, settings=run.context.settings)
        texts = CachedEmbedder(run.store, of_texts(model))

        def embed_images(found: Sequence[StoredEntity]) -> list[WorkResult]:
            images.embed_images([stored_image(run.context.blobs, one) for one in found])
            return [WorkResult(one.seq) for one in found]

        def embed_texts(found: Sequence[StoredEntity]) -> list[WorkResult]:
            texts.embed_texts([one.record(records.Caption).text for one in found])
            return [WorkResult(one.seq) for one in found]

        works = {records.Image.kind: embed_images, records.Caption.kind: embed_texts}
        for kind, work in works.items():
            stage = Stage(
                name=self.name,
                version=self.version,
                dataset=run.dataset,
                configuration={**run.plan_of(self), "kind": kind},
                agents=scope.packages,
                workers=1,
                label=f"{self.name}: {kind}s",
            )
            run.add(run_stage(run.context, stage, pending(run, kind), work))


@checking_arguments
def embed() -> Part:
    """Return a step that stores vectors of images and captions by the embedder of the profile.

    `loupe similar`, `loupe.similar` and the explorer use them for searches.
    """
    return _Embedding()


# Descriptions.

_DESCRIBE = "describe_image"


@checking_arguments
def describe(
    prompt: str | Path = _DESCRIBE,
    *,
    styles: Sequence[str] = (),
    per_item: int = 1,
    version: str = "1",
    name: str = "describe",
) -> ModelStep:
    """Return a step in which the chat model of the profile describes each image, in each style."""
    return llm_step(
        prompt,
        inputs=Image,
        outputs=Caption,
        version=version,
        per_item=per_item,
        styles=styles,
        name=name,
    )


# Checks of texts.


def _check_form(text: str, _: Sequence[str]) -> str | None:
    defect = text_defect(text, Form(sentences=False))
    return f"it {defect.detail}" if defect else None


def _check_support(text: str, sources: Sequence[str]) -> str | None:
    if not sources:
        return None
    parts = unsupported_parts(" ".join(sources), text)
    return f"the source does not say: {parts[0].text!r}" if parts else None


CHECKS: Mapping[str, TextCheck] = {"form": _check_form, "support": _check_support}
_JUDGE = "judge"


class Checks(Part):
    """Checks the captions that were written: what speaks against one is shown to people."""

    version = "1"
    takes = records.Caption.kind
    makes = (CaptionCheck.kind,)

    def __init__(self, name: str, checks: Sequence[str]) -> None:
        self.name = name
        self.checks = tuple(checks)
        self.rules = {one: _rule(one) for one in checks if one != _JUDGE}

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return the checks, and the judge if there is one."""
        judge = self._judge(profile)
        found: dict[str, Any] = {"checks": list(self.checks)}
        if judge is not None:
            prompt = load_prompt(judge.prompt)
            found["judge"] = model_settings(judge.model, prompt)
        return found

    def _judge(self, profile: Profile) -> JudgeSettings | None:
        return profile.judge if _JUDGE in self.checks else None

    def specs(self, profile: Profile) -> list[NamedModel]:
        """Return the judge, if there is one."""
        judge = self._judge(profile)
        return [judge.model] if judge else []

    def described(self) -> str:
        """Return the checks."""
        return f"{self.name}: {', '.join(self.checks)}"

    def run(self, run: OwnRun) -> None:
        """Check the captions that were not checked yet."""
        scope = run.begin(self)
        judge = self._judge(run.profile)
        if _JUDGE in self.checks and judge is None:
            run.say(
                f"warning: profile {run.profile.name!r} names no judge, so nothing is judged: add "
                f"[judge] to a profile (docs/profiles.md)"
            )
        if judge is None:
            self._check(run, scope)
        else:
            self._ask(run, scope, judge)

    def _check(self, run: OwnRun, scope: Scope) -> None:
        plan = run.plan_of(self)
        stage = Stage(self.name, self.version, run.dataset, plan, agents=scope.packages)

        def checked(captions: Sequence[StoredEntity]) -> list[WorkResult]:
            sources = _sources_of(run, captions)
            return [self._result(run, one, sources[one.id], scope.links) for one in captions]

        def work(captions: Sequence[StoredEntity]) -> list[WorkResult]:
            return list(scope.passing_over(run.store, captions, checked))

        run.add(run_stage(run.context, stage, pending(run, records.Caption.kind), work))

    def _ask(self, run: OwnRun, scope: Scope, judge: JudgeSettings) -> None:
        model, prompt = chat_model(run, judge.model), load_prompt(judge.prompt)
        prompt_id = model.store_prompt(prompt).id

        def requests(captions: Sequence[StoredEntity]) -> Iterator[Any]:
            sources = _sources_of(run, captions)
            for one in captions:
                said = sources[one.id]
                if not said:
                    yield self._result(run, one, said, scope.links)
                    continue
                texts = "\n".join(said), one.record(records.Caption).text
                yield [Ask((one, said), request_judgement(*texts, prompt))]

        def output(answer: Parsed[Any, Any]) -> WorkResult:
            one, said = answer.subject
            objections = tuple(answer.value.objections)
            links = (*scope.links, (Role.PROMPTED_BY, prompt_id))
            return self._result(run, one, said, links, objections, model.author, answer.call)

        step: LLMStep[Any, Any, Any] = LLMStep(
            name=self.name,
            version=self.version,
            label=self.name,
            configuration=run.plan_of(self),
            inputs=pending(run, records.Caption.kind),
            request=requests,
            parse=lambda _, answer: read_judgement(answer),
            outputs=lambda answers: [output(one) for (one,) in answers],
        )
        run.add(run_llm_step(model, step, scope))

    def _result(
        self,
        run: OwnRun,
        caption: StoredEntity,
        sources: Sequence[str],
        links: Sequence[tuple[Role, str]],
        objections: Sequence[str] = (),
        judge: str | None = None,
        call: str | None = None,
    ) -> WorkResult:
        """Return the check of a caption."""
        text = caption.record(records.Caption).text
        found = {name: rule(text, sources) for name, rule in self.rules.items()}
        said = [sentence for sentence in found.values() if sentence]
        check = new_entity(
            CaptionCheck(warnings=(*said, *objections), judge=judge),
            run.dataset,
            parents=[(Role.EXAMINES, caption.id), *links],
            group=caption.group,
            model_call=call,
        )
        return WorkResult(caption.seq, entities=(check,))


def _rule(name: str) -> TextCheck:
    """Return a check of captions; one of rewrites compares a caption with those of the source."""
    if name in CHECKS:
        return CHECKS[name]
    if name not in plugins("checks"):
        known = sorted({*CHECKS, _JUDGE, *plugins("checks")})
        raise UsageError(f"no check is called {name!r}; {nearest_hint(name, known)}")
    check = load_check(name)
    if isinstance(check, PlainCheck):
        return check.function

    def rule(text: str, sources: Sequence[str]) -> str | None:
        if not sources:
            return None
        pair = RewritePair(source=" ".join(sources), rewrite=text)
        judged = judge_rewrite(pair, FaithfulnessSettings(), [name])
        if isinstance(judged, Defect):
            return judged.detail
        if judged.verdict == "faithful":
            return None
        return next(one.message for one in judged.findings if one.change != "lost")

    return rule


def _sources_of(run: OwnRun, captions: Sequence[StoredEntity]) -> dict[str, list[str]]:
    """Return the texts of the source about the image of each caption, without the caption."""
    images = images_of(run.store, captions)
    texts = originals_of(run.store, list(images.values()))
    found = {}
    for one in captions:
        others = [text for text in texts[images[one.id].id] if text.id != one.id]
        found[one.id] = [text.record(records.Caption).text for text in others]
    return found


@checking_arguments
def check(*checks: str, name: str = "check") -> Checks:
    """Return a step that checks written captions: "form", "support", "judge", or one of a plugin.

    A doubtful caption goes to people at the next gate, and is dropped if nobody looks there.

    Raises:
        UsageError: there is no such check.
    """
    if not checks:
        raise UsageError(f"check needs at least one of {', '.join((*CHECKS, _JUDGE))}")
    return Checks(name, checks)


# Filters from a condition.

_IMAGE_FACTS: Mapping[str, Callable[[Image], Any]] = {
    "sharpness": sharpness,
    "brightness": brightness,
    "contrast": contrast,
    "width_px": lambda image: image.width_px,
    "height_px": lambda image: image.height_px,
    "aspect": lambda image: image.width_px / image.height_px,
    "identity": lambda image: image.identity,
    "source": lambda image: image.source,
    "captions": lambda image: len(image.captions),
}
_CAPTION_FACTS: Mapping[str, Callable[[Caption], Any]] = {
    "words": lambda caption: len(caption.text.split()),
    "characters": lambda caption: len(caption.text),
    "language": lambda caption: caption.language or "en",
}
_ALLOWED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare),
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Name, ast.Load, ast.Constant),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div),
)


class _Condition:
    """A condition on the facts of an image or a caption."""

    def __init__(self, where: str) -> None:
        self.where = where
        try:
            self.tree = ast.parse(where, mode="eval")
        except SyntaxError as error:
            raise UsageError(f"the condition {where!r} cannot be read: {error.msg}") from error
        for node in ast.walk(self.tree):
            if not isinstance(node, _ALLOWED):
                raise UsageError(
                    f"the condition {where!r} may have comparisons, and, or, not, + - * / and "
                    f"facts; got {type(node).__name__.lower()}"
                )
        names = [node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        self.is_of_captions = bool(names) and all(name in _CAPTION_FACTS for name in names)
        self.facts = _CAPTION_FACTS if self.is_of_captions else _IMAGE_FACTS
        for name in names:
            if name not in self.facts:
                hint = nearest_hint(name, (*_IMAGE_FACTS, *_CAPTION_FACTS))
                what = "captions" if self.is_of_captions else "images"
                raise UsageError(
                    f"the condition {where!r} asks for {name!r}, which is not a fact of {what}; "
                    f"{hint}"
                )
        self.names = tuple(dict.fromkeys(names))
        self.code = compile(self.tree, "<condition>", "eval")

    def refusal(self, value: Any) -> Rejection | None:
        """Return why a value does not meet it; None if it does."""
        facts = {name: self.facts[name](value) for name in self.names}
        if eval(self.code, {"__builtins__": {}}, facts):  # noqa: S307 - of the nodes above only
            return None
        said = ", ".join(f"{name} is {_shown(fact)}" for name, fact in facts.items())
        return Rejection.of("filtered", f"It does not meet {self.where}: {said}.", **facts)


def _shown(fact: Any) -> str:
    return f"{fact:.4g}" if isinstance(fact, float) else str(fact)


@checking_arguments
def filter(where: str, *, name: str = "filter") -> Step:  # noqa: A001 - the field's word
    """Return a filter with a condition, such as "sharpness >= 60 and width_px >= 224".

    Facts of images: sharpness, brightness, contrast, width_px, height_px, aspect, identity, source,
    captions (their number). Facts of captions: words, characters, language.

    Raises:
        UsageError: the condition cannot be read.
    """
    condition = _Condition(where)

    def keep_image(image: Image, where: str = where) -> bool | Rejection:  # noqa: ARG001
        return condition.refusal(image) or True

    def keep_caption(caption: Caption, where: str = where) -> bool | Rejection:  # noqa: ARG001
        return condition.refusal(caption) or True

    function = keep_caption if condition.is_of_captions else keep_image
    return Step(function, StepSettings(name=name))


OWN: Mapping[str, Callable[..., Part]] = {
    "check": check,
    "describe": describe,
    "embed": embed,
    "filter": filter,
    "llm_step": llm_step,
    "near_duplicates": near_duplicates,
    "sample": sample,
}
"""The steps of Loupe by name."""


def step_called(name: str, others: Iterable[str] = ()) -> Any:
    """Return what makes the step of a name: one of Loupe's, or of a plugin.

    Args:
        name: the name of the step.
        others: names that the caller knows besides, for the error.

    Raises:
        UsageError: there is none.
    """
    if name in OWN:
        return OWN[name]
    if name in plugins("steps"):
        return _named_after(name, load_plugin("steps", name))
    hint = nearest_hint(name, [*OWN, *plugins("steps"), *others])
    raise UsageError(f"no step is called {name!r}; {hint}")


def _named_after(plugin: str, found: Any) -> Any:
    """Return a step of a plugin, or what makes one, which knows the name of the plugin."""
    if isinstance(found, Part):
        found.plugin = plugin
        return found

    @wraps(found)
    def make(*args: Any, **kwargs: Any) -> Any:
        return _named_after(plugin, found(*args, **kwargs))

    return checking_arguments(make)


def __dir__() -> list[str]:
    return sorted({*OWN, *plugins("steps")})


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return step_called(name)
    except UsageError as error:
        raise AttributeError(f"loupe.steps: {error}") from error
