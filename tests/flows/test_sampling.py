"""Drawing a sample of an imported source into a dataset."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from loupe.db.decisions import append_decisions
from loupe.db.entities import (
    AgentRef,
    NewDecision,
    NewEntity,
    count_entities,
    find,
    parents_of,
    register_agents,
)
from loupe.db.quarantine import quarantined
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.sampling import SampleSettings, draw_sample
from loupe.schemas.build import SourceSpec
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Granularity, Image, Sample
from tests.flows.worlds import write_people


@pytest.fixture
def spec(tmp_path: Path) -> SourceSpec:
    """Four people with two images of two captions each."""
    annotations = write_people(
        tmp_path / "people", Granularity.FINE, identities=4, images=2, captions=2
    )
    return SourceSpec(
        name="people", format="cuhk-pedes", annotations=annotations, images=annotations.parent
    )


def draw(
    run: RunContext, spec: SourceSpec, source: NewEntity, *, seed: int = 0, identities: int = 3
) -> StageReport:
    settings = SampleSettings(
        identities=identities, images_per_identity=spec.images_per_identity, seed=seed
    )
    return draw_sample(run, "built", spec, source, settings)[-1]


def test_drawn_images_keep_their_captions_and_provenance(
    home_run: RunContext, spec: SourceSpec
) -> None:
    source, imported = import_source(home_run, spec)
    assert (imported.done, imported.rejected.total()) == (8, 0)
    spec = spec.model_copy(update={"images_per_identity": 1})
    report = draw(home_run, spec, source)
    assert report.done == 3
    copies = list(find(home_run.store, "built", Image.kind))
    assert len({copy.record(Image).identity for copy in copies}) == len(copies) == 3
    captions = list(find(home_run.store, "built", Caption.kind))
    assert {one.group for one in captions} == {copy.id for copy in copies}
    assert len(captions) == 6
    (sample,) = find(home_run.store, "built", Sample.kind)
    record = sample.record(Sample)
    assert (record.identities_drawn, record.images_drawn, record.seed) == (3, 3, 0)
    ids = [copy.id for copy in copies]
    assert parents_of(home_run.store, ids, Role.MEMBER_OF) == {i: [sample.id] for i in ids}
    assert len(parents_of(home_run.store, ids, Role.SAMPLED_FROM)) == 3


def test_drawing_a_second_time_changes_nothing(home_run: RunContext, spec: SourceSpec) -> None:
    source, _ = import_source(home_run, spec)
    draw(home_run, spec, source)
    again = draw(home_run, spec, source)
    assert (again.done, again.already_done) == (0, 6)
    assert count_entities(home_run.store, "built", Sample.kind) == 1


def withdraw(run: RunContext, ids: Iterable[str]) -> None:
    """Withdraw entities by decisions, as a withdrawal does."""
    agent = AgentRef("software", "a withdrawal")
    with run.store.write() as connection:
        register_agents(connection, [agent])
        append_decisions(connection, [NewDecision(one, "withdraw", agent) for one in ids])


def test_a_withdrawal_does_not_change_an_earlier_draw(
    home_run: RunContext, spec: SourceSpec
) -> None:
    """No image replaces a withdrawn one."""
    source, _ = import_source(home_run, spec)
    draw(home_run, spec, source)
    copies = list(find(home_run.store, "built", Image.kind))
    originals = parents_of(home_run.store, [one.id for one in copies], Role.SAMPLED_FROM)
    taken = {one for many in originals.values() for one in many}
    withdrawn = min(taken)
    withdraw(
        home_run, [withdrawn, *(copy for copy, many in originals.items() if withdrawn in many)]
    )
    draw(home_run, spec, source)
    assert count_entities(home_run.store, "built", Sample.kind) == 1
    assert {one.id for one in find(home_run.store, "built", Image.kind)} == {
        one.id for one in copies
    }


def test_withdrawn_images_are_not_drawn(home_run: RunContext, spec: SourceSpec) -> None:
    source, _ = import_source(home_run, spec)
    withdrawn = sorted(one.id for one in find(home_run.store, "people", Image.kind))[:3]
    withdraw(home_run, withdrawn)
    draw(home_run, spec, source, identities=4)
    copies = [one.id for one in find(home_run.store, "built", Image.kind)]
    originals = parents_of(home_run.store, copies, Role.SAMPLED_FROM)
    assert len(copies) == 5
    assert not {one for many in originals.values() for one in many} & set(withdrawn)


def test_another_draw_into_one_dataset_is_refused(home_run: RunContext, spec: SourceSpec) -> None:
    source, _ = import_source(home_run, spec)
    draw(home_run, spec, source)
    with pytest.raises(ConfigurationError, match="already holds another draw from people"):
        draw(home_run, spec, source, seed=1)
    assert count_entities(home_run.store, "built", Image.kind) == 6


def test_drawing_into_a_dataset_with_an_imported_source_is_refused(
    home_run: RunContext, spec: SourceSpec
) -> None:
    source, _ = import_source(home_run, spec)
    other = spec.model_copy(update={"name": "built"})
    import_source(home_run, other)
    with pytest.raises(ConfigurationError, match="'built' contains an imported source"):
        draw(home_run, spec, source)


def test_a_split_without_images_is_an_error(home_run: RunContext, spec: SourceSpec) -> None:
    source, _ = import_source(home_run, spec)
    spec = spec.model_copy(update={"split": "train"})
    with pytest.raises(ConfigurationError, match="no usable image in its 'train' split"):
        draw(home_run, spec, source)


def quarantined_files(run: RunContext, dataset: str, reason: str) -> list[str]:
    return sorted(one.context["file"] for one in quarantined(run.store, dataset, reason))


def test_an_image_of_several_identities_is_drawn_for_none(
    home_run: RunContext, spec: SourceSpec
) -> None:
    records = json.loads(Path(spec.annotations).read_text())
    first, other = records[0], records[-1]
    assert first["id"] != other["id"]
    shutil.copy(spec.images / first["file_path"], spec.images / other["file_path"])
    source, _ = import_source(home_run, spec)
    draw(home_run, spec, source, identities=9)
    files = [one.record(Image).file_path for one in find(home_run.store, "built", Image.kind)]
    assert len(files) == 6
    left_out = sorted([first["file_path"], other["file_path"]])
    assert quarantined_files(home_run, "built", "image_of_several_identities") == left_out


def test_a_copy_of_a_file_under_two_identities_is_not_that_of_a_third(
    home_run: RunContext, spec: SourceSpec
) -> None:
    records = json.loads(Path(spec.annotations).read_text())
    names = sorted({one["id"] for one in records})
    first, second, third = (next(one for one in records if one["id"] == name) for name in names[:3])
    second["file_path"] = first["file_path"]
    Path(spec.annotations).write_text(json.dumps(records))
    shutil.copy(spec.images / first["file_path"], spec.images / third["file_path"])
    source, _ = import_source(home_run, spec)
    draw(home_run, spec, source, identities=9)
    files = [one.record(Image).file_path for one in find(home_run.store, "built", Image.kind)]
    assert third["file_path"] not in files
    assert quarantined_files(home_run, "built", "image_of_several_identities") == [
        third["file_path"]
    ]


def test_an_image_that_another_source_gave_is_not_drawn_again(
    home_run: RunContext, spec: SourceSpec
) -> None:
    for name in ("people", "again"):
        one = spec.model_copy(update={"name": name})
        source, _ = import_source(home_run, one)
        draw(home_run, one, source, identities=9)
    images = [one.record(Image) for one in find(home_run.store, "built", Image.kind)]
    assert {image.source for image in images} == {"people"}
    assert len(quarantined_files(home_run, "built", "image_of_several_identities")) == 8
