"""Steps of `build-ufine3c` that any pipeline may have: `rewrite` and `check_rewrites`.

They are found by their entry points, as those of other packages are.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loupe.api.llm import require_list
from loupe.api.parts import Part, Place
from loupe.checks.rewrites import described_checks
from loupe.db.decisions import decide, decided_by_gate
from loupe.db.entities import NewDecision, StoredEntity, children_of
from loupe.flows.engine.asked import ask, let_gates_decide_again
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.model_step import StagePlan
from loupe.flows.engine.runner import get_or_create_entity
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.flows.engine.software import software
from loupe.flows.faithfulness import STAGE as CHECKING
from loupe.flows.faithfulness import VERSION as CHECK_VERSION
from loupe.flows.faithfulness import check_rewrites as check_all
from loupe.flows.faithfulness import checking_stage
from loupe.flows.forecast import JUDGEMENT, REWRITE, forecast_calls
from loupe.flows.rewriting import STAGE, VERSION, plan_rewriting, rewrite_captions
from loupe.flows.ufine3c.forecast import rewriters_of
from loupe.flows.ufine3c.judging import judge_rewrites, plan_judging
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import UsageError
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.plugins import plugins
from loupe.schemas.profile import ChatModelSpec, JudgeSettings, Profile, RewriteSettings
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck, MeasuredJudge
from loupe.schemas.records import Caption, Rewrite
from loupe.schemas.validation import nearest_hint

_IN_A_STYLE = "rewrite_in_style"


class _Rewriting(Part):
    """Each model of `[rewrite]` in the profile rewrites each caption, in each style."""

    version = VERSION
    takes = Caption.kind
    makes = (Rewrite.kind,)

    def __init__(self, name: str, styles: Sequence[str], prompt: str | None) -> None:
        self.name = name
        self.styles = tuple(styles)
        self._prompt = prompt
        self._folder: Path | None = None

    def placed(self, place: Place) -> None:
        """Take the prompt from the folder of its pipeline, if it is a file."""
        self._folder = place.folder

    def _settings(self, profile: Profile) -> RewriteSettings:
        prompt = self._prompt
        if prompt is None:
            return profile.rewrite
        if prompt.endswith(".md") and self._folder is not None:
            prompt = str(self._folder / prompt)
        return profile.rewrite.model_copy(update={"prompt": prompt})

    def _plans(self, dataset: str, profile: Profile, scope: Scope) -> list[StagePlan]:
        settings = self._settings(profile)
        return [
            plan_rewriting(dataset, spec, settings, self.styles, scope)
            for spec in rewriters_of(profile)
        ]

    def specs(self, profile: Profile) -> Sequence[ChatModelSpec]:
        """Return the models that rewrite."""
        return rewriters_of(profile)

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines the rewrites.

        Raises:
            UsageError: there are styles, and the prompt does not mention them.
        """
        prompt = load_prompt(self._settings(profile).prompt)
        if self.styles and "style" not in prompt.variables:
            raise UsageError(
                f"step {self.name!r} has styles, and its prompt {prompt.id} does not use "
                f"{{{{ style }}}}"
            )
        plans = self._plans("", profile, EVERYTHING)
        return {"models": [one.configuration for one in plans]}

    def described(self) -> str:
        """Return what it does."""
        styles = f" in the styles {', '.join(self.styles)}" if self.styles else ""
        return f"{self.name}: each model rewrites each caption{styles}"

    def run(self, run: PipelineRun[Any]) -> None:
        """Say what is still to be asked, and ask it."""
        scope = run.begin(self)
        is_own = bool(scope.links)  # a pipeline of one's own replaces the results of all its steps
        values = {"step": self.name, **self.values(run.profile)}
        asked = None if is_own else ask(run.context, run.dataset, STAGE, VERSION, values)
        if asked:
            scope = replace(scope, later_links=asked.links)
        plans = self._plans(run.dataset, run.profile, scope)
        for plan in plans:
            run.say(
                forecast_calls(run.store, plan, plan.count_pending(run.store), REWRITE).sentence
            )
        for plan in plans:
            settings = self._settings(run.profile)
            run.add(rewrite_captions(run.context, plan, settings, self.styles, scope))
        if asked:
            asked.keep(Rewrite, Role.REWRITE_OF)
            asked.note()


def rewrite(
    styles: Sequence[str] = (), *, prompt: str | None = None, name: str = "rewrite"
) -> Part:
    """Return a step in which each model of `[rewrite]` in the profile rewrites each caption.

    Args:
        styles: one rewrite is asked for in each, such as "plain" and "in one short sentence".
        prompt: a Markdown file beside the pipeline's, or the name of a prompt of Loupe (default:
            that of the profile, and `rewrite_in_style` if there are styles). It may use
            `{{ description }}`, `{{ style }}` and `{{ max_characters }}`.
        name: the name of the step.

    Raises:
        UsageError: the styles are a single text.
    """
    require_list("styles", styles)
    return _Rewriting(name, styles, prompt or (_IN_A_STYLE if styles else None))


class _Checking(Part):
    """Compares each rewrite with its caption; then a judge does, if the profile has one."""

    version = CHECK_VERSION
    takes = Rewrite.kind
    makes = (FaithfulnessReport.kind,)
    decides = True

    def __init__(self, name: str, checks: Sequence[str]) -> None:
        self.name = name
        self.checks = tuple(checks)

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the judge, if there is one."""
        return [profile.judge.model] if profile.judge else []

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return the checks, their settings, and the judge."""
        found: dict[str, Any] = {
            "checks": described_checks(self.checks),
            "settings": profile.faithfulness.model_dump(mode="json"),
        }
        if profile.judge is not None:
            found["judge"] = plan_judging("", profile.judge).configuration
        return found

    def described(self) -> str:
        """Return its checks."""
        return f"{self.name}: {', '.join(self.checks)}"

    def run(self, run: PipelineRun[Any]) -> None:
        """Check the rewrites that were not checked yet."""
        scope = run.begin(self)
        checks = self.checks or run.build.checks
        settings = run.profile.faithfulness
        authors = [str(one.ref) for one in rewriters_of(run.profile)]
        values = self._asked(run, checks, authors)
        asked = ask(run.context, run.dataset, CHECKING, CHECK_VERSION, values)
        is_own = bool(scope.links)
        if asked.others and not is_own:
            scope = replace(scope, links=asked.links)
            if asked.have_changed:
                _judge_again(run)
        stage = checking_stage(run.dataset, settings, authors, checks, scope)
        run.add(check_all(run.context, run.dataset, settings, authors, checks, scope))
        asked.note()
        run.refuse_again(self, stage, Rewrite.kind)
        _note_measured(run)
        if run.profile.judge is not None:
            self._judge(run, run.profile.judge, scope)
        if asked.others and not is_own:
            made = set(children_of(run.store, [asked.current], Role.WRITTEN_WITH)[asked.current])
            run.keep_only(self, FaithfulnessReport, made)
            run.sync_active(CaptionCheck, lambda one: one.id in made if _is_of_judge(one) else None)

    def _judge(self, run: PipelineRun[Any], judge: JudgeSettings, scope: Scope) -> None:
        """Ask the judge about the rewrites that it was not asked about yet."""
        plan = plan_judging(run.dataset, judge, scope)
        run.say(forecast_calls(run.store, plan, plan.count_pending(run.store), JUDGEMENT).sentence)
        run.add(judge_rewrites(run.context, plan, scope))

    def _asked(
        self, run: PipelineRun[Any], checks: Sequence[str], authors: Sequence[str]
    ) -> dict[str, Any]:
        """Return what this run asks of the step."""
        asked = {
            "step": self.name,
            "checks": described_checks(checks),
            "settings": run.profile.faithfulness.model_dump(mode="json"),
            "authors": list(authors),
        }
        if run.profile.judge is not None:
            asked["judge"] = plan_judging("", run.profile.judge).configuration
        return asked


def _is_of_judge(check: StoredEntity) -> bool:
    return check.record(CaptionCheck).judge is not None


def _judge_again(run: PipelineRun[Any]) -> None:
    """Reopen the rewrites that gates or checks decided alone, so that the present ones decide."""
    why = "other checks are asked for now"
    let_gates_decide_again(run, Rewrite, why)
    refused = decided_by_gate(run.store, run.dataset, Rewrite.kind, software().name, "")
    decide(run.store, [NewDecision(one.id, "reopen", software(), why) for one in refused])


def _note_measured(run: PipelineRun[Any]) -> None:
    """Store for the card how good the profile says its judge is; what earlier runs stored ends."""
    judge = run.profile.judge
    measured = judge.measured if judge else None
    if judge and measured:
        prompt = load_prompt(judge.prompt)
        if measured.prompt != f"{prompt.id} {prompt.version}":
            run.say(
                f"[judge.measured] is of the prompt {measured.prompt}, and the judge is asked with "
                f"{prompt.id} {prompt.version}, so the card does not quote it; measure again with: "
                f"loupe judge calibrate"
            )
            measured = None
    current = get_or_create_entity(run.context, measured, run.dataset).id if measured else None
    run.sync_active(MeasuredJudge, lambda one: one.id == current)


def check_rewrites(*checks: str, name: str = "check_rewrites") -> Part:
    """Return a step that compares each rewrite with the caption that it rewrites.

    One that is not a rewrite, such as a copy, is rejected; one that states something else is shown
    to people at the next gate, and dropped if nobody looks there.

    Args:
        checks: "form", "support", "person" or those of other packages (default: those that a
            build file names, or "form" and "support").
        name: the name of the step.

    Raises:
        UsageError: there is no such check.
    """
    for one in checks:
        if one not in plugins("checks"):
            raise UsageError(f"no check is called {one!r}; {nearest_hint(one, plugins('checks'))}")
    return _Checking(name, checks)
