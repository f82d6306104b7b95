"""The parts of a pipeline, and the run that they share."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from loupe.annotate.queues import reopen_decided
from loupe.api.records import Record
from loupe.db.decisions import decide, last_agents, set_active
from loupe.db.entities import (
    LIVE,
    AgentRef,
    NewDecision,
    NewEntity,
    StoredEntity,
    fetch,
    fetch_children,
    fetch_parents,
    find,
    pages,
    parents_of,
)
from loupe.db.plugin_agents import plugin_agents
from loupe.db.store import Store
from loupe.db.work import Pending, register_plan, rejected_inputs
from loupe.flows.engine.context import PipelineRun, PipelineStep
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, store_settings
from loupe.flows.engine.scope import Scope, is_original
from loupe.flows.engine.software import software
from loupe.schemas.base import EntityRecord, canonical_json, digest_of
from loupe.schemas.build import Build
from loupe.schemas.plugins import foreign_plugins
from loupe.schemas.profile import Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.video import StageSettings

if TYPE_CHECKING:
    from loupe.annotate.queues import Step as QueueStep

STEP_PREFIX = "step:"
"""How the names of agents begin that are steps of a pipeline: `step:DATASET/STEP`."""
Counts = Callable[[StoredEntity, Sequence[str]], bool]
"""Tells whether an entity counts that was made of these."""
_PAGE = 500
ABOVE = (
    *(Role.DESCRIBES, Role.DERIVED_FROM, Role.REWRITE_OF, Role.EDITED_FROM),
    *(Role.CONTRAST_OF, Role.ACCEPTED_FROM),
)
"""The roles of links from what a step made to its inputs."""
_SHOWN_DIGITS = 12


class OwnBuild(Build):
    """The build of a pipeline that is written with the public API.

    `policies` are those of its gates, by name; with a `limit`, only so many records of each source
    are read. `test_share` of the identities are for testing; None keeps the splits of the sources.
    """

    version: str
    policies: dict[str, str] = Field(default_factory=dict)
    limit: int | None = None
    test_share: float | None = None

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks of rewrites, where a step names none."""
        return ("form", "support")

    @property
    def gates(self) -> dict[str, str]:
        """The policy of each gate, by its name."""
        return dict(self.policies)


@dataclass
class OwnRun(PipelineRun[OwnBuild]):
    """One run of such a pipeline.

    Attributes:
        parts: the parts of the pipeline, in order.
        current: the settings with which the results that count were made.
        is_fresh: whether nothing changed since activity was last computed.
        kept: copies of an earlier state of a source that are as before; `kept_images` are images.
        settings_of: the settings that count of each part, by its name.
        counts_of: which entities count of those made with some settings, where not all do.
    """

    parts: Sequence["Part"] = field(kw_only=True)
    current: set[str] = field(init=False, default_factory=set)
    is_fresh: bool = field(init=False, default=False)
    kept: set[str] = field(init=False, default_factory=set)
    kept_images: set[str] = field(init=False, default_factory=set)
    settings_of: dict[str, set[str]] = field(init=False, default_factory=dict)
    counts_of: dict[str, Counts] = field(init=False, default_factory=dict)

    def settings(self, part: "Part") -> NewEntity:
        """Return the settings of a part, stored; say if its code changed and its version did not.

        Settings with the same version and parameters count, whatever code they name: the code is
        part of provenance, and the version says whether results differ.
        """
        values = self.values_of(part)
        stored = store_settings(self.context, self.dataset, part.name, part.version, values)
        others = [one for one in self._same_settings(part, values) if one.id != stored.id]
        self._count(part, [stored.id, *(one.id for one in others)])
        before = [one.record(StageSettings).values.get("code") for one in others]
        code = values.get("code")
        if before and code not in before:
            self.say(
                f"warning: the code of step {part.name!r} changed (digest "
                f"{str(before[-1])[:_SHOWN_DIGITS]} before, {str(code)[:_SHOWN_DIGITS]} now), but "
                f"its version is still {part.version!r}: earlier results stay; raise the version "
                f"to compute them again"
            )
        return stored

    def values_of(self, part: "Part") -> dict[str, Any]:
        """Return the settings of a part in this pipeline: its own, and which parts feed it."""
        values = part.values(self.profile)
        before = self.parts[: list(self.parts).index(part)]
        if after := [one.name for one in before if part.takes in one.makes]:
            values["after"] = after
        for plugin in foreign_plugins("steps", [part.plugin]):
            values["package"] = plugin.named
        return values

    def keep_groups(self, part: "Part", groups: Iterable[Iterable[str]]) -> None:
        """Let only what a part made of these groups of entities count."""
        members = {frozenset(one) for one in groups}
        self._count_if(part, lambda _, above: frozenset(above) in members)

    def keep_only(
        self,
        step: "Part",
        kind: type[EntityRecord],  # noqa: ARG002
        ids: Collection[str],
    ) -> None:
        """Let only these count of what a part made."""
        self._count_if(step, lambda one, _: one.id in ids)

    def _count_if(self, part: "Part", counts: Counts) -> None:
        self.counts_of.update(dict.fromkeys(self.settings_of[part.name], counts))
        self.is_fresh = False

    def count_current(self, part: "Part") -> None:
        """Let what was made under the present version of a part count."""
        values = self.values_of(part)
        self._count(part, [one.id for one in self._same_settings(part, values)])

    def _count(self, part: "Part", settings: Iterable[str]) -> None:
        known = self.settings_of.setdefault(part.name, set())
        known.update(settings)
        self.current.update(known)

    def _same_settings(self, part: "Part", values: Mapping[str, Any]) -> list[StoredEntity]:
        wanted = canonical_json(without_code(values))
        found = []
        for one in self.stage_settings(part.name):
            record = one.record(StageSettings)
            is_same = canonical_json(without_code(record.values)) == wanted
            if is_same and record.version == part.version:
                found.append(one)
        return found

    def plan_of(self, part: "Part") -> dict[str, Any]:
        """Return the configuration of a part's plan: everything that determines its results."""
        return {"dataset": self.dataset, **without_code(self.values_of(part))}

    def agent_of(self, part: "Part") -> AgentRef:
        """Return the agent of a part's decisions; its revision is that of its results."""
        values = canonical_json(without_code(self.values_of(part)))
        revision = digest_of(part.version, values)[:_SHOWN_DIGITS]
        return AgentRef("software", f"{STEP_PREFIX}{self.dataset}/{part.name}", revision)

    def add(self, *reports: StageReport) -> None:
        """Add reports of stages, and note whether they changed anything."""
        super().add(*reports)
        if any(report.finished for report in reports):
            self.is_fresh = False

    def keep(self, copies: Sequence[str]) -> None:
        """Let an image that was copied earlier count, with its texts: the image first, if any."""
        self.kept.update(copies)
        self.kept_images.update(copies[:1])

    def kinds(self) -> list[str]:
        """Return the kinds that the pipeline makes, images and captions first."""
        own = [kind for part in self.parts for kind in part.makes]
        return list(dict.fromkeys((Image.kind, Caption.kind, *own)))

    def all_kinds(self) -> list[str]:
        """Return the kinds that it makes, with those that their steps keep up to date."""
        kept = [form.kind for part in self.parts for form in part.proposes]
        return list(dict.fromkeys((*self.kinds(), *kept)))

    def begin(self, step: "Part") -> Scope:
        """Leave out what no longer counts, and return the scope of a part.

        Its inputs are what was made before it. Where captions were written before it, those of
        sources are none.
        """
        self.refresh()
        settings = self.settings(step)
        return replace(
            self.scope(step),
            links=((Role.WRITTEN_WITH, settings.id),),
            agent=self.agent_of(step),
            packages=self.packages_of(step),
        )

    def packages_of(self, part: "Part") -> tuple[AgentRef, ...]:
        """Return the packages that add a part, its checks or its models, as agents."""
        models = [one.name for one in part.specs(self.profile)]
        agents = [
            *plugin_agents("steps", part.plugin),
            *plugin_agents("checks", *part.checks),
            *plugin_agents("models", *models),
        ]
        return tuple(dict.fromkeys(agents))

    def refuse_again(self, step: "Part", stage: Stage, kind: str) -> None:
        """Refuse again what this version of a step refused before another version was tried."""
        plan_id = register_plan(self.store, stage.name, stage.version, stage.configuration)
        found = rejected_inputs(self.store, plan_id, self.dataset, kind, LIVE)
        agent = self.agent_of(step)
        decide(self.store, [NewDecision(id_, "reject", agent, reason) for id_, reason in found])
        if found:
            self.is_fresh = False

    def replace_again(self, step: "Part") -> None:
        """Let what a step made of images take their place again, if they were reopened since."""
        if self._unreplaced(step):  # perhaps only by crops that do not count any more
            self.is_fresh = False
            self.refresh()
        images = self._unreplaced(step)
        agent, reason = self.agent_of(step), f"replaced by what {step.name} made of it"
        decide(self.store, [NewDecision(id_, "reject", agent, reason) for id_ in images])
        if images:
            self.is_fresh = False

    def _unreplaced(self, step: "Part") -> list[str]:
        """Return the images that count although a step made others of them that count."""
        made = fetch_children(self.store, self.settings_of[step.name], Role.WRITTEN_WITH)
        counting = [
            one.id
            for many in made.values()
            for one in many
            if one.kind == Image.kind and one.state in LIVE
        ]
        sources = fetch_parents(self.store, counting, Role.DERIVED_FROM)
        images = {one.id for many in sources.values() for one in many if one.state in LIVE}
        return sorted(images)

    def scope(self, part: "Part") -> Scope:
        """Return which entities are inputs of a part; see `begin`."""
        place = list(self.parts).index(part)
        before, later = self.parts[:place], self.parts[place:]
        made_later = {id_ for one in later for id_ in self.settings_of.get(one.name, ())}
        writes = any(Caption.kind in one.makes for one in before)
        return Scope(frozenset(made_later), skips_originals=writes)

    def taken(self, part: "Part", scope: Scope) -> list[StoredEntity]:
        """Return what a part takes, also what it, or a part after it, refused in an earlier run.

        So what is made of all inputs together does not depend on what comes after.
        """
        place = list(self.parts).index(part)
        agents = {self.agent_of(one) for one in self.parts[place:] if one.decides}
        found: list[StoredEntity] = []
        stored = find(self.store, self.dataset, part.takes, states=(*LIVE, "rejected"))
        for page in pages(stored, _PAGE):
            wanted = scope.inputs(self.store, page)
            refused = last_agents(self.store, [one.id for one in page if one.state == "rejected"])
            for one in page:
                is_taken = one.state in LIVE or refused.get(one.id) in agents
                if is_taken and one.id in wanted:
                    found.append(one)
        return found

    def refresh(self) -> None:
        """Leave out what stale steps made, and what was made of inputs that no longer count."""
        while not self.is_fresh:
            changed = 0  # what is made of a record of one's own follows it in the next pass
            for kind in self.kinds():
                states = (*LIVE, "superseded", "rejected", "inactive")
                for page in pages(find(self.store, self.dataset, kind, states=states), _PAGE):
                    changed += self._refresh(page)
            self.is_fresh = not changed

    def _settings_by_agent(self, agent: AgentRef) -> set[str]:
        """Return the settings that count of the step whose decisions an agent makes."""
        name = agent.name.removeprefix(f"{STEP_PREFIX}{self.dataset}/")
        return self.settings_of.get(name, set()) if name != agent.name else set()

    def _refresh(self, page: list[StoredEntity]) -> int:
        """Set what of a page counts, and return how many entities changed."""
        ids = [one.id for one in page]
        settings = parents_of(self.store, ids, Role.WRITTEN_WITH)
        above: dict[str, list[str]] = {id_: [] for id_ in ids}
        for role in ABOVE:
            for id_, linked in parents_of(self.store, ids, role).items():
                above[id_] += linked
        parents = fetch(self.store, {parent for many in above.values() for parent in many})
        copied = (
            parents_of(self.store, ids, Role.SAMPLED_FROM) if page[0].kind == Image.kind else {}
        )
        sampled = fetch(self.store, {id_ for many in copied.values() for id_ in many})
        left = {id_ for id_, one in sampled.items() if one.state == "inactive"}
        refused = [one.id for one in parents.values() if one.state == "rejected"]
        agents = last_agents(self.store, refused)
        by_step = {id_: self._settings_by_agent(agent) for id_, agent in agents.items()}
        active: dict[str, bool] = {}
        changed: dict[bool, list[str]] = {True: [], False: []}
        for one in page:
            is_current = all(id_ in self.current for id_ in settings.get(one.id, ()))
            is_current = is_current or one.id in self.kept
            if not self.kept_images.isdisjoint(above[one.id]) and is_original(one):
                is_current = one.id in self.kept
            if not left.isdisjoint(copied.get(one.id, ())):
                is_current = False
            for id_ in self.counts_of.keys() & settings.get(one.id, ()):
                is_current = is_current and self.counts_of[id_](one, above[one.id])
            made_with = set(settings.get(one.id, ()))
            replaced = {id_ for id_ in above[one.id] if made_with & by_step.get(id_, set())}
            is_active = is_current and all(
                _counts(one, parents[id_], active.get(id_), id_ in replaced)
                for id_ in above[one.id]
            )
            active[one.id] = is_active
            if is_active is (one.state == "inactive"):
                changed[is_active].append(one.id)
        for value, those in changed.items():
            if those:
                set_active(self.store, those, software(), active=value)
        return sum(map(len, changed.values()))


def _counts(
    child: StoredEntity, parent: StoredEntity, is_active: bool | None, is_replaced: bool
) -> bool:
    """Tell whether what was made of `parent` still counts."""
    if is_active is False or parent.state in ("inactive", "withdrawn"):
        return is_active is True and parent.state == "inactive"
    if parent.state == "rejected":  # by the step that replaced it with its crops
        return is_replaced and child.kind == parent.kind == Image.kind
    is_edit = child.kind == parent.kind and parent.state == "superseded"
    return parent.state in LIVE or is_edit


def without_code(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of settings that determine results: all but code and package."""
    return {name: value for name, value in values.items() if name not in ("code", "package")}


def decide_again(run: OwnRun) -> None:
    """If the pipeline has changed, reopen what its steps refused and what gates decided alone.

    What the steps before the first changed one refused stays. Each step so takes what it has not
    seen, as a step after it refused that, and other checks may doubt other items.
    """
    stage = f"{STEP_PREFIX}{run.dataset}"
    named = [(one.name, [one.version, without_code(run.values_of(one))]) for one in run.parts]
    values = {"parts": dict(named), "order": [name for name, _ in named]}
    current = store_settings(run.context, run.dataset, stage, "1", values).id
    known = {one.id: one for one in run.stage_settings(stage)}
    before = [one for id_, one in known.items() if id_ != current and one.state in LIVE]
    if before:
        reason = "the pipeline has changed"
        stated = before[0].record(StageSettings).values
        former = [(name, stated["parts"][name]) for name in stated["order"]]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(named, former, strict=False))
        _reopen_refused(run, run.parts[: len(list(same))], reason)
        for queue in run.queues.values():
            reopen_decided(run.store, queue, reason)
    run.keep_settings(current, known)


def _reopen_refused(run: OwnRun, unchanged: Sequence["Part"], reason: str) -> None:
    """Reopen what steps refused, except the `unchanged` ones at the beginning."""
    hold = {run.agent_of(part) for part in unchanged if part.decides}
    states = ("rejected", "inactive")  # what does not count now may count again
    for kind in run.all_kinds():
        for page in pages(find(run.store, run.dataset, kind, states=states), _PAGE):
            agents = last_agents(run.store, [one.id for one in page])
            reopened = [
                NewDecision(id_, "reopen", software(), reason)
                for id_, agent in agents.items()
                if agent.name.startswith(STEP_PREFIX) and agent not in hold
            ]
            decide(run.store, reopened)


class Place(NamedTuple):
    """Where a part is: the folder of its pipeline, its stated sources, and the parts before it."""

    folder: Path
    sources: Sequence[Mapping[str, Any]]
    before: Sequence["Part"]


class Part(PipelineStep[Any]):
    """A part of a pipeline: a step, a gate or the release.

    One that reads its inputs by `run.begin` is a step of the papers' pipelines, too.

    Attributes:
        name: its name in reports, rejections and provenance.
        version: raise it when results change.
        takes: the kind that it takes; empty for others.
        makes: the kinds that it makes.
        needs: other kinds that must be made before it.
        proposes: the classes of what it makes for later steps, and keeps up to date itself.
        awaits: the kinds that a gate must have decided on before it.
        decides: whether it refuses its inputs, which then leave the dataset.
        forms: the classes of one's own that it takes or makes.
        plugin: the name under which a package adds it; empty for others.
        checks: the checks of texts that it asks for, by name.
    """

    name: str
    version: str = "1"
    takes: str = ""
    needs: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    proposes: tuple[type[EntityRecord], ...] = ()
    awaits: tuple[str, ...] = ()
    decides: bool = False
    forms: tuple[type[Record], ...] = ()
    plugin: str = ""
    checks: tuple[str, ...] = ()

    @abstractmethod
    def run(self, run: Any) -> None:
        """Run it as far as items are decided."""

    def placed(self, place: Place) -> None:
        """Take what it needs to know of its place in a pipeline.

        Raises:
            UsageError: it cannot be there.
        """

    def values(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return its parameters and models, and the digest of its code as `code`."""
        return {}

    def queue(self) -> "QueueStep | None":
        """Return the review queue of a gate."""
        return None

    def described(self) -> str:
        """Return the part in a line, for people: its name, a colon, and what it does."""
        return self.name

    def chosen(self, profile: Profile) -> dict[str, Any]:  # noqa: ARG002
        """Return settings that differ from the defaults, as far as `described` has none of them."""
        return {}


def pending(run: OwnRun, kind: str) -> Pending:
    """Return the entities of a kind that a step takes."""
    return Pending(run.dataset, kind, LIVE)


def in_order_of_content(
    entities: Iterable[StoredEntity], images: Mapping[str, StoredEntity]
) -> list[StoredEntity]:
    """Return entities sorted by what they are, as the order of storage differs between runs.

    They are sorted by the source and path of their image (`images`, by the id of the entity; images
    are their own), then by their position and their content.
    """

    def place(entity: StoredEntity) -> tuple[str, str, int, str, str]:
        image = entity if entity.kind == Image.kind else images.get(entity.id)
        record = image.record(Image) if image else None
        of_image = (record.source, record.file_path) if record else ("", "")
        position = entity.record(Caption).position if entity.kind == Caption.kind else 0
        return (*of_image, position, entity.payload, entity.id)

    return sorted(entities, key=place)


def originals_of(store: Store, images: Collection[StoredEntity]) -> dict[str, list[StoredEntity]]:
    """Return the captions of sources about each image, by position, without those of the past.

    An image that a later step refused keeps its captions.
    """
    refused = {one.id for one in images if one.state == "rejected"}
    found: dict[str, list[StoredEntity]] = {one.id: [] for one in images}
    for id_, texts in fetch_children(store, list(found), Role.DESCRIBES).items():
        left_out = ("withdrawn",) if id_ in refused else ("withdrawn", "inactive")
        originals = [one for one in texts if is_original(one) and one.state not in left_out]
        found[id_] = sorted(originals, key=lambda one: one.record(Caption).position)
    return found
