"""Past releases can be rebuilt after any sequence of decisions, additions and builds."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from loupe.db.entities import find_children
from loupe.db.releases import find_release
from loupe.release.build import BuiltRelease, build_release
from loupe.release.rebuild import rebuild_release
from loupe.schemas.errors import IntegrityError, LoupeError
from loupe.schemas.provenance import Role
from tests.release.later import Later, bytes_of
from tests.release.worlds import DATASET, released_entities, small_world, store_world

_verdicts = st.sampled_from(("accept", "reject", "reopen"))
_chances = st.integers(0, 10_000)


class Curation(RuleBasedStateMachine):
    """State machine of a dataset that changes between releases.

    The model consists of the bytes of each release and the set of withdrawn entities.
    """

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.built: list[BuiltRelease] = []
        self.withdrawn: set[str] = set()

    @initialize()
    def begin(self) -> None:
        self.world = store_world(self.home, small_world(1).contents())
        self.later = Later(self.world, DATASET)

    def teardown(self) -> None:
        try:
            for built in self.built:
                self.check(built)
        finally:
            self.world.store.close()
            shutil.rmtree(self.home)

    @rule(which=_chances, verdict=_verdicts)
    def decide_on_a_text(self, which: int, verdict: str) -> None:
        self._decide(which, verdict, "caption", "rewrite")

    @rule(which=_chances, verdict=_verdicts)
    def decide_on_an_image(self, which: int, verdict: str) -> None:
        self._decide(which, verdict, "image")

    def _decide(self, which: int, verdict: str, *kinds: str) -> None:
        known = self.later.ids(*kinds)
        self.later.verdict(known[which % len(known)], verdict)

    @rule()
    def edit_a_text(self) -> None:
        self.later.edit()

    @rule()
    def describe_an_image(self) -> None:
        self.later.add_caption()

    @rule()
    def import_an_image(self) -> None:
        self.later.run_again()

    @rule(which=_chances)
    def withdraw_a_text(self, which: int) -> None:
        known = [one for one in self.later.ids("rewrite") if one not in self.withdrawn]
        if known:
            taken = self._edits(known[which % len(known)])
            self.later.withdraw([one for one in taken if one not in self.withdrawn])
            self.withdrawn.update(taken)

    def _edits(self, text: str) -> list[str]:
        """Return a text and all texts edited from it, which are withdrawn with it."""
        edits = find_children(self.world.store, text, Role.EDITED_FROM)
        return [text, *(one for edit in edits for one in self._edits(edit.id))]

    @precondition(lambda self: len(self.built) < 3)
    @rule()
    def build(self) -> None:
        version = f"{len(self.built) + 1}.0.0"
        try:
            built = build_release(
                self.world.store, self.world.blobs, DATASET, version, self.home / version
            )
        except LoupeError:  # nothing left to release
            return
        self.built.append(built)

    @precondition(lambda self: self.built)
    @rule(which=_chances)
    def rebuild(self, which: int) -> None:
        self.check(self.built[which % len(self.built)])

    def check(self, built: BuiltRelease) -> None:
        """Check that the release is rebuilt identically, or refused after a withdrawal."""
        stored = find_release(self.world.store, built.manifest.id)
        items = released_entities(self.world.store, built.manifest.id)
        out = self.home / "again"
        if self.withdrawn & set(items):
            with pytest.raises(IntegrityError, match="withdrawn by withdrawal"):
                rebuild_release(self.world.store, self.world.blobs, stored, out)
            assert not out.exists()
            return
        rebuild_release(self.world.store, self.world.blobs, stored, out)
        assert bytes_of(out) == bytes_of(built.folder)
        shutil.rmtree(out)


Curation.TestCase.settings = settings(
    max_examples=5,
    stateful_step_count=16,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestCuration = Curation.TestCase
