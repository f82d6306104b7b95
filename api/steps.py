"""`loupe.steps`: steps that others have written; those of plugins appear under their names."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loupe.api.images import brightness, contrast, sharpness
from loupe.api.llm import ModelStep, llm_step
from loupe.api.models import chat_model
from loupe.api.parts import OwnRun, Part, in_order_of_content, pending
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
    fetch_children,
    find,
    new_entity,
)
from loupe.flows.engine.model_step import Ask, LLMStep, Parsed, model_settings, run_llm_step
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.scope import Scope, is_original
from loupe.flows.judgements import read_judgement, request_judgement
from loupe.prompts.loader import load_prompt
from loupe.retrieval.similarity.near_duplicates import find_near_duplicates, fingerprint
from loupe.schemas import records
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import UsageError
from loupe.schemas.faithfulness import RewritePair
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.profile import FaithfulnessSettings, JudgeSettings, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings
from loupe.schemas.validation import fault_of, nearest_hint

# Near-duplicates.


class _NearDuplicates(Part):
    """Keeps one image of each content, the one with the most pixels."""

    name = "near_duplicates"
    version = "1"
    decides = True

    def __init__(self, settings: NearDuplicateSettings) -> None:
        self.thresholds = settings

    def values(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return its thresholds."""
        return self.thresholds.model_dump(mode="json")

    def described(self) -> str:
        """Return what it does."""
        return "near_duplicates: keeps one image of each content"

    def run(self, run: OwnRun) -> None:
        """Fingerprint the images that have none, and refuse those that are like a kept one.

        Those that it refused before count again, so that the result depends on all images alike.
        """
        scope = run.begin(self)
        agent = scope.agent
        look_stage = f"{self.name}_look"
        configuration = {"dataset": run.dataset}
        label = f"{self.name}: compute fingerprints"
        stage = Stage(look_stage, self.version, run.dataset, configuration, label=label)

        def look(images: Sequence[StoredEntity]) -> list[WorkResult]:
            return list(scope.passing_over(run.store, images, lambda those: _looked_at(run, those)))

        run.add(run_stage(run.context, stage, pending(run, records.Image.kind), look))
        images = self._images(run, scope, LIVE)
        rejected = self._images(run, scope, ("rejected",))
        agents = last_agents(run.store, [one.id for one in rejected])
        refused = [one for one in rejected if agents.get(one.id) == agent]
        compared = in_order_of_content((*images, *refused), {})
        looks = fetch_children(run.store, [one.id for one in compared], Role.LOOKS_LIKE)
        known = {
            one.id: looks[one.id][-1].record(ImageFingerprint) for one in compared if looks[one.id]
        }
        paths = {one.id: one.record(records.Image).file_path for one in compared}
        dropped: dict[str, str] = {}
        for cluster in find_near_duplicates(known, self.thresholds).clusters:
            for gone in cluster.members[1:]:
                dropped[gone] = f"shows the same as {paths[cluster.kept]}"
        decisions = [
            NewDecision(one.id, "reject", agent, dropped[one.id])
            for one in images
            if one.id in dropped
        ]
        decisions += [
            NewDecision(one.id, "reopen", agent, "shows the same as no kept image")
            for one in refused
            if one.id not in dropped
        ]
        decide(run.store, decisions)
        run.is_fresh = run.is_fresh and not decisions
        if dropped:
            run.say(f"near_duplicates: {len(dropped):,} images show the same as another one")

    def _images(self, run: OwnRun, scope: Scope, states: Sequence[str]) -> list[StoredEntity]:
        """Return the images in some states that were made before it."""
        found = list(find(run.store, run.dataset, records.Image.kind, states=states))
        wanted = scope.inputs(run.store, found)
        return [one for one in found if one.id in wanted]


def _looked_at(run: OwnRun, images: Sequence[StoredEntity]) -> Iterator[WorkResult]:
    for image in images:
        yield _fingerprinted(run, image)


def _fingerprinted(run: OwnRun, image: StoredEntity) -> WorkResult:
    record = image.record(records.Image)
    data = run.context.blobs.read(record.sha256, record.media_type)
    look = fingerprint(data, record.file_path)
    if isinstance(look, records.Rejection):
        return WorkResult(image.seq, rejection=look)
    entity = new_entity(look, run.dataset, parents=[(Role.LOOKS_LIKE, image.id)], group=image.id)
    return WorkResult(image.seq, entities=(entity,))


def near_duplicates(**thresholds: Any) -> Part:
    """Return a step that keeps one image of each content; see docs/near-duplicates.md.

    Raises:
        UsageError: there is no such threshold, or it has a wrong value.
    """
    try:
        return _NearDuplicates(NearDuplicateSettings(**thresholds))
    except ValidationError as error:
        raise UsageError(f"near_duplicates: {fault_of(error, NearDuplicateSettings)}") from error


# Descriptions.

_DESCRIBE = "describe_image"


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
    texts = fetch_children(run.store, {str(one.group) for one in captions}, Role.DESCRIBES)
    found = {}
    for one in captions:
        others = [text for text in texts[str(one.group)] if is_original(text) and text.id != one.id]
        found[one.id] = [text.record(records.Caption).text for text in others]
    return found


def check(*checks: str, name: str = "check") -> Checks:
    """Return a step that checks the written captions: "form", "support", "judge", or of a plugin.

    A caption against which something speaks is shown to people at the next gate, and dropped if
    nobody looks there.

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
                    f"the condition {where!r} asks for {name!r}, which is no fact of {what}; {hint}"
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


def filter_where(where: str, *, name: str = "filter") -> Step:
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
    "filter": filter_where,
    "llm_step": llm_step,
    "near_duplicates": near_duplicates,
}
"""The steps of Loupe by name."""


def step_called(name: str) -> Any:
    """Return what makes the step of a name: one of Loupe's, or of a plugin.

    Raises:
        UsageError: there is none.
    """
    if name in OWN:
        return OWN[name]
    if name in plugins("steps"):
        return _named_after(name, load_plugin("steps", name))
    raise UsageError(f"no step is called {name!r}; {nearest_hint(name, [*OWN, *plugins('steps')])}")


def _named_after(plugin: str, found: Any) -> Any:
    """Return a step of a plugin, or what makes one, which knows the name of the plugin."""
    if isinstance(found, Part):
        found.plugin = plugin
        return found

    @wraps(found)
    def make(*args: Any, **kwargs: Any) -> Any:
        return _named_after(plugin, found(*args, **kwargs))

    return make


def __dir__() -> list[str]:
    return sorted({*OWN, *plugins("steps")})


def __getattr__(name: str) -> Any:
    if name == "filter":
        return filter_where
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return step_called(name)
    except UsageError as error:
        raise AttributeError(f"loupe.steps: {error}") from error
