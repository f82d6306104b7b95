"""Captions of sources that do not describe one image."""

import json
from pathlib import Path

import pytest

from loupe.annotate.queues import (
    Queue,
    apply_policy,
    candidates,
    count_proposed,
    parse_policy,
    shipped,
)
from loupe.db.entities import StoredEntity, find
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.pipeline import load_build
from loupe.flows.engine.releasing import release_checks
from loupe.flows.engine.sampling import SampleSettings, draw_sample
from loupe.flows.ufine3c.source_captions import ask_about_captions, check_source_captions
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.records import Caption, Granularity
from tests.flows.worlds import write_people

SHARED = "A man in a black coat walks with a hand in his pocket."


@pytest.fixture
def drawn(home_run: RunContext, tmp_path: Path) -> RunContext:
    """Three people, two of whom share a caption; one repeats a caption of their own."""
    annotations = write_people(
        tmp_path / "people", Granularity.FINE, identities=3, images=2, captions=2
    )
    records = json.loads(annotations.read_text())
    first, *_, last = records
    first["captions"][1], last["captions"][1] = SHARED, f" {SHARED.upper()}"
    records[1]["captions"][0] = first["captions"][0]
    annotations.write_text(json.dumps(records))
    spec = SourceSpec(
        name="people", format="cuhk-pedes", annotations=annotations, images=annotations.parent
    )
    source, _ = import_source(home_run, spec)
    settings = SampleSettings(identities=3, images_per_identity=None, seed=0)
    draw_sample(home_run, "built", spec, source, settings)
    asked = ask_about_captions(home_run, "built", "en")
    check_source_captions(home_run, "built", "en", asked)
    return home_run


def queue(policy: str) -> Queue:
    return shipped().queue("built", "originals", parse_policy(policy))


def captions(run: RunContext, state: str) -> list[StoredEntity]:
    return list(find(run.store, "built", Caption.kind, states=(state,)))


def test_a_caption_of_several_identities_is_left_out_and_counted(drawn: RunContext) -> None:
    apply_policy(drawn.store, queue("auto"))
    rejected = captions(drawn, "rejected")
    assert {one.record(Caption).text.casefold() for one in rejected} == {SHARED.casefold()}
    assert len(rejected) == 2
    assert len(captions(drawn, "proposed")) == 10
    (counted,) = release_checks(drawn.store, drawn.settings, "built").originals()
    assert (counted.reason, counted.flagged, counted.left_out) == ("shared_caption", 2, 2)


def test_people_are_asked_about_flagged_captions_alone(drawn: RunContext) -> None:
    for policy in ("required", "sample:0"):
        apply_policy(drawn.store, queue(policy))
        assert count_proposed(drawn.store, queue(policy)) == 2
        warnings = [one.warnings for one in candidates(drawn.store, queue(policy))]
        assert all("it is also the caption of 1 others: people/" in one for (one,) in warnings)
    forms, shared = check_source_captions(
        drawn, "built", "en", ask_about_captions(drawn, "built", "en")
    )
    assert (forms.done, shared.done, shared.already_done) == (0, 0, 2)


@pytest.mark.parametrize(
    ("keys", "policy"), [("", "required"), ('originals_gate = "auto"', "auto")]
)
def test_the_gate_of_rewrites_is_that_of_captions_unless_stated(
    tmp_path: Path, keys: str, policy: str
) -> None:
    source = 'name = "a"\nformat = "cuhk-pedes"\nannotations = "a.json"\nimages = "."\n'
    (tmp_path / "b.toml").write_text(f'gate = "required"\n{keys}\n[[sources]]\n{source}')
    build = load_build(tmp_path / "b.toml", UFine3CBuild)
    assert build.gates == {"rewrites_gate": "required", "originals_gate": policy}
