"""Steps of `build-ccd` that any pipeline may have, from proposed contrasts to a six-way test.

They are found by their entry points, as those of other packages are.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loupe.annotate.queues import Step as QueueStep
from loupe.annotate.queues import parse_policy, shipped
from loupe.api.parts import OwnRun, Part, Place
from loupe.api.pipeline import Gate
from loupe.flows.ccd.editing import edit_images
from loupe.flows.ccd.groups import form_groups, sync_active_candidates
from loupe.flows.ccd.image_choice import search_images
from loupe.flows.ccd.image_requests import request_images
from loupe.flows.ccd.run import CcdRun, search_of
from loupe.flows.ccd.strategies import VERSION, propose_strategies
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.scope import Scope
from loupe.prompts.loader import load_prompt
from loupe.schemas.build import CcdBuild
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import UsageError
from loupe.schemas.profile import ChatModelSpec, Profile
from loupe.schemas.proposals import Candidate, ChoiceTest, Strategy
from loupe.schemas.records import Caption, Image, Method, Rewrite
from loupe.schemas.requests import MOST_STRATEGIES
from loupe.services.diagnosis import plugin_filters


class _Step(Part):
    """A step that works on strategies and candidates, which it keeps up to date itself.

    Attributes:
        folder: the folder that is searched, if any.
    """

    folder: Path | None = None

    def run(self, run: PipelineRun[Any]) -> None:
        """Do its work on all that is decided."""
        scope = run.begin(self)
        if isinstance(run, CcdRun):
            self.work(run, scope)
            return
        state = self._state(run)
        self.work(state, scope)
        run.add(*state.report.stages)
        if state.stopped is not None:
            raise state.stopped

    def _state(self, run: Any) -> CcdRun:
        """Return the state of a build of contrastive images for a pipeline of one's own."""
        methods = [one.method for one in run.parts if isinstance(one, _Obtaining)]
        build = CcdBuild(
            dataset=run.dataset,
            seed=run.build.seed,
            sources=run.build.sources,
            faces=run.build.faces,
            methods=tuple(dict.fromkeys(methods)) or ("edit",),
            search_folder=self.folder,
        )
        return CcdRun(run.context, build, run.profile, run.open_desks, run.wait)

    @abstractmethod
    def work(self, run: CcdRun, scope: Scope) -> None:
        """Do its work."""


# Contrasts, proposed by a chat model.


class _Proposing(_Step):
    """The strategist of the profile proposes strategies for each image that has a caption."""

    version = VERSION
    takes = Image.kind
    needs = (Caption.kind,)
    proposes = (Strategy,)

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._most = most

    def specs(self, profile: Profile) -> Sequence[ChatModelSpec]:
        """Return the strategist."""
        return [profile.contrast.strategist]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        settings = profile.contrast
        return {
            "model": settings.strategist.ref.model_dump(),
            "parameters": settings.strategist.parameters,
            "prompt": load_prompt(settings.prompt).digest,
            "repair": load_prompt(settings.repair_prompt).digest,
            "area": settings.image_area.model_dump(),
            "most": self._most,
        }

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Image -> up to {self._most} Strategy by a chat model"

    def work(self, run: CcdRun, scope: Scope) -> None:
        """Ask about every image that was not asked about yet."""
        propose_strategies(run, self._most, scope)


def propose_contrasts(most: int = MOST_STRATEGIES, *, name: str = "propose_contrasts") -> Part:
    """Return a step in which a chat model (`[contrast.strategist]`) proposes other images.

    Each `loupe.Strategy` is one detail in which another image is to differ from the image, with the
    caption of that image, by which it is searched, and an instruction for an editor. One that
    cannot be used is rejected, and the others of the answer are kept.

    Args:
        most: at most so many for an image.
        name: the name of the step.

    Raises:
        UsageError: `most` is less than 1.
    """
    if most < 1:
        raise UsageError(f"propose_contrasts: most must be at least 1; got {most}")
    return _Proposing(name, most)


# Images for contrasts, found or edited.


class _Obtaining(_Step):
    """Obtains an image for each accepted strategy that has none."""

    method: Method
    takes = Strategy.kind
    awaits = (Strategy.kind,)
    proposes = (Candidate,)

    def is_enabled(self, run: PipelineRun[Any]) -> bool:
        """Tell whether it is the turn of its method."""
        return not isinstance(run, CcdRun) or run.method == self.method

    def work(self, run: CcdRun, scope: Scope) -> None:  # noqa: ARG002
        """Serve every strategy without an image; several methods serve in their order."""
        sync_active_candidates(run)
        with run.alone("request images"):
            run.add(request_images(run.context, run.dataset, self.method, run.deferred))
        self.obtain(run)
        sync_active_candidates(run)

    @abstractmethod
    def obtain(self, run: CcdRun) -> None:
        """Serve the open requests."""


class _Searching(_Obtaining):
    """The search of the profile, or a folder, is asked for the caption of each strategy."""

    method = "search"

    def __init__(self, name: str, folder: str | None) -> None:
        self.name = name
        self.folder = Path(folder) if folder is not None else None

    def placed(self, place: Place) -> None:
        """Take the folder that is searched from that of its pipeline."""
        if self.folder is not None:
            self.folder = place.folder / self.folder

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the search, the embedder that compares its results, and their filter."""
        search = search_of(self.folder, profile)
        searches = [search] if search is not None else []
        return [*searches, profile.contrast.embedder, *plugin_filters(profile)]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results.

        Raises:
            UsageError: there is nothing to search.
        """
        search = search_of(self.folder, profile)
        if search is None:
            raise UsageError(
                f"step {self.name!r} has nothing to search: state folder=…, or [contrast.search] "
                f"in the profile (docs/profiles.md)"
            )
        settings = profile.contrast
        return {
            "search": str(search.ref),
            "embedder": str(settings.embedder.ref),
            "choice": settings.choice.model_dump(mode="json"),
        }

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Strategy -> Candidate by a search for images"

    def obtain(self, run: CcdRun) -> None:
        """Search, download and choose."""
        search_images(run)


def search(folder: str | None = None, *, name: str = "search") -> Part:
    """Return a step that searches an image for each contrast (`[contrast.search]`).

    The results with a licence that permits it are downloaded; the one that is most similar to the
    image, but not the same, becomes a `loupe.Candidate`.

    Args:
        folder: a folder of images with their licences, to be searched instead of a service.
        name: the name of the step.
    """
    return _Searching(name, folder)


class _Editing(_Obtaining):
    """The editor of the profile makes the image of each strategy; what it changed is measured."""

    method = "edit"

    def __init__(self, name: str) -> None:
        self.name = name

    def is_per_item(self, run: PipelineRun[Any]) -> bool:
        """Tell whether an edit depends on its strategy alone."""
        return isinstance(run, CcdRun) and run.edits_alone

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the editor, the embedder that judges its edits, and their filter."""
        return [profile.contrast.editor, profile.contrast.embedder, *plugin_filters(profile)]

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return what determines its results."""
        editor, embedder = profile.contrast.editor, profile.contrast.embedder
        return {
            "editor": {"model": editor.ref.model_dump(), "parameters": editor.parameters},
            "embedder": str(embedder.ref),
            "check": profile.contrast.edit_check.model_dump(mode="json"),
        }

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Strategy -> Candidate by an editor of images"

    def obtain(self, run: CcdRun) -> None:
        """Make every edit that was not made yet; each is stored at once."""
        edit_images(run)


def edit(*, name: str = "edit") -> Part:
    """Return a step in which an editor (`[contrast.editor]`) makes the image of each contrast.

    It becomes a `loupe.Candidate` if the change is where and what was asked for, as measured.

    Args:
        name: the name of the step.
    """
    return _Editing(name)


# Anchors with their contrastive images.


class _Grouping(_Step):
    """Makes an image of each accepted candidate, in the group of its anchor."""

    takes = Candidate.kind
    awaits = (Candidate.kind,)

    def __init__(self, name: str, *, captions: bool) -> None:
        self.name = name
        self.makes = (Image.kind, Caption.kind) if captions else (Image.kind,)

    def is_per_item(self, run: PipelineRun[Any]) -> bool:
        """Tell whether a group depends on what is made of its anchor alone."""
        return isinstance(run, CcdRun) and run.edits_alone

    def described(self) -> str:
        """Return what it makes."""
        made = " and ".join(one.capitalize() for one in self.makes)
        return f"{self.name}: Candidate -> {made}, in the group of its anchor"

    def work(self, run: CcdRun, scope: Scope) -> None:
        """Make the images, and group each anchor with its own."""
        author = f"{run.dataset}.{self.name}@{self.version}"
        form_groups(run, scope, author if Caption.kind in self.makes else None)


def group(*, captions: bool = True, name: str = "group") -> Part:
    """Return a step that groups each image with the images that differ from it in one detail.

    They are released as a benchmark of contrastive images: with the type of each difference, after
    their anchor, and scored within their groups.

    Args:
        captions: whether the caption of each new image is that of its `loupe.Strategy`; otherwise
            a later step writes captions.
        name: the name of the step.
    """
    return _Grouping(name, captions=captions)


# The forced-choice test of the papers.


class _SixWayTest(Gate):
    """A gate at which people choose one of six: for each drawn image, and one of its captions."""

    awaits = (Caption.kind, Rewrite.kind)

    def __init__(self, size: int, policy: str) -> None:
        super().__init__("choices", ChoiceTest, "six-way-choice", policy)
        self.needs = (Caption.kind,)
        self._size = size

    def run(self, run: OwnRun) -> None:
        """Draw the tests, if there are none, and ask people."""
        from loupe.flows.ccd.choice_test import draw_and_store, released_samples, sample_vectors

        run.refresh()
        if not run.find(ChoiceTest):
            samples = released_samples(run.store, run.dataset)
            vectors = sample_vectors(run.context, samples, None, run.profile)
            drawn = draw_and_store(
                run.store, run.dataset, self._size, run.build.seed, vectors.similarities(), samples
            )
            run.say(f"{run.dataset}: {len(drawn.tests):,} forced-choice tests drawn")
        super().run(run)

    def queue(self) -> QueueStep:
        """Return its queue, as declared for all datasets."""
        return shipped().step("choices").model_copy(update={"policy": parse_policy(self.policy)})


def six_way_test(size: int = 400, *, policy: str = "required") -> Part:
    """Return a gate with the human test of the papers: which of six captions, which of six images.

    The five others are the most similar ones of other images, by the first model that the profile
    evaluates. `loupe quality choices result` prints the result, and leaderboards have it as a row.
    Put it behind all steps, before the release.

    Args:
        size: the number of images that are drawn; each gets two tests.
        policy: "required", "sample:0.1" (a tenth of them) or "auto" (nobody is asked yet).

    Raises:
        UsageError: the size is less than 1, or the policy cannot be read.
    """
    if size < 1:
        raise UsageError(f"six_way_test: size must be at least 1; got {size}")
    return _SixWayTest(size, policy)
