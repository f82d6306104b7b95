"""`loupe withdraw` as people use it: shown, confirmed, killed, gone on with, looked up again."""

import io
import random
from pathlib import Path

import pytest
from PIL import Image as Picture

from db.entities import find, new_entity
from db.store import Store
from db.tombstones import refused_files
from db.withdrawals import list_withdrawals
from flows.context import open_context
from flows.importing import import_source
from profiles.settings import load_settings
from schemas.base import sha256_of
from schemas.build import SourceSpec
from schemas.records import Granularity, Image
from schemas.video import Video, VideoFacts
from tests.db.samples import store_entities
from tests.flows.command_line import Loupe
from tests.flows.withdrawals import Home, home_of, left_of
from tests.flows.worlds import KEEP_COMPILED, RunningProgram, write_people
from tests.flows.worlds import loupe as loupe_program
from tests.release.worlds import DATASET, SOURCES, small_world

SOURCE = SOURCES[1].name
PERSON = ("--identity", "9", "--source", SOURCE, "--dataset", DATASET)
ASKED = ("withdraw", *PERSON, "--ground", "privacy")


@pytest.fixture
def installed(home: Path) -> Home:
    """An installation with a release."""
    made = home_of(home, small_world())
    made.store.close()
    return made


def test_looking_shows_everything_and_changes_nothing(installed: Home, loupe: Loupe) -> None:
    shown = loupe(*ASKED, "--dry-run")
    assert shown.exit_code == 0
    assert "icfg-pedes" in shown.out
    assert "2 of 12" in shown.out
    assert "1.0.1" in shown.out
    assert "2 files of the blob store" in shown.out
    told = loupe(*ASKED, "--dry-run", "--json").json
    assert {one["dataset"] for one in told["entities"]} == {DATASET, "icfg-pedes"}
    assert [one["version"] for one in told["patches"]] == ["1.0.1"]
    assert "nothing was withdrawn" in loupe("withdrawals").out


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--reason", "asked"), "nobody is here to confirm it"),
        (("--yes",), "needs a reason"),
        (("--yes", "--reason", " "), "needs a reason"),
    ],
)
def test_without_a_confirmation_or_a_reason_nothing_is_done(
    installed: Home,
    loupe: Loupe,
    arguments: tuple[str, ...],
    wanted: str,
) -> None:
    refused = loupe(*ASKED, *arguments)
    assert refused.exit_code == 2
    assert wanted in refused.err
    assert loupe("withdrawals", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((), "name one thing"),
        (("abcdef", "--video", "a.mp4"), "name one thing"),
        (("--identity", "9"), "say which with --dataset"),
        (("--identity", "nobody", "--dataset", DATASET), "nothing is stored"),
        (("--identity", "9", "--dataset", DATASET), "say which with --source"),
        (("abcdef0",), "no entity has an id"),
        (("abcdef0", "--dataset", DATASET), "leave --dataset out"),
        (("--file", __file__, "--dataset", DATASET), "leave --dataset out"),
        (("--annotator", "reviewer-1", "--dataset", DATASET), "leave --dataset out"),
    ],
)
def test_what_is_meant_must_be_clear(
    installed: Home,
    loupe: Loupe,
    arguments: tuple[str, ...],
    wanted: str,
) -> None:
    refused = loupe("withdraw", *arguments, "--ground", "privacy", "--dry-run")
    assert refused.exit_code == 2
    assert wanted in refused.err


def test_a_ground_must_be_one_that_is_known(installed: Home, loupe: Loupe) -> None:
    for ground in ((), ("--ground", "spite")):
        refused = loupe("withdraw", *PERSON, *ground, "--dry-run")
        assert refused.exit_code == 2
        assert "--ground" in refused.err


def test_it_can_be_looked_up_and_asked_for_again(installed: Home, loupe: Loupe) -> None:
    done = loupe(*ASKED, "--reason", "a letter of May 3rd", "--yes", "--json")
    assert done.exit_code == 0
    assert done.json["state"] == "finished"
    key = done.json["key"]
    shown = loupe("withdrawals", key[:8])
    assert "a letter of May 3rd" in shown.out
    assert f"release {DATASET} 1.0.1" in shown.out
    again = loupe(*ASKED, "--reason", "a letter of May 3rd", "--yes")
    assert again.exit_code == 0
    assert "nothing is left to do" in again.out
    assert [one["key"] for one in loupe("withdrawals", "--json").json] == [key]
    assert "every withdrawal is finished" in loupe("withdraw", "--resume").out
    tombstone = loupe("lineage", done.json["entities"][0]).out
    assert "(withdrawn)" in tombstone
    assert key[:12] in tombstone


def test_what_was_withdrawn_is_not_imported_again(home: Path, tmp_path: Path, loupe: Loupe) -> None:
    options = {"identities": 3, "images": 1, "captions": 1}
    people = write_people(tmp_path / "people", Granularity.COARSE, **options)
    context = open_context(load_settings())

    def bring(name: str) -> list[str]:
        spec = SourceSpec(
            name=name,
            format="cuhk-pedes",
            annotations=people,
            images=people.parent,
            split="test",
            licence="CC0-1.0",
            citation="c",
        )
        import_source(context, spec)
        return [one.record(Image).sha256 for one in find(context.store, name, "image")]

    brought = bring("first")
    gone = sha256_of((people.parent / "0002_0.jpg").read_bytes())
    assert gone in brought
    asked = (
        "--identity",
        "2",
        "--dataset",
        "first",
        "--ground",
        "privacy",
        "--reason",
        "r",
        "--yes",
    )
    assert loupe("withdraw", *asked).exit_code == 0
    again = bring("second")
    assert sorted(again) == sorted(set(brought) - {gone})
    assert not context.blobs.has(gone, "image/png")
    told = loupe("quarantine", "second", "--json")
    assert "withdrawn" in told.out
    (withdrawal,) = list_withdrawals(context.store)
    assert withdrawal.key[:12] in told.out
    context.store.close()


def test_a_picture_saved_anew_is_refused_as_it_was_sent(
    installed: Home, tmp_path: Path, loupe: Loupe
) -> None:
    store = Store.open(f"sqlite:///{installed.folder / 'loupe.db'}")
    image = next(find(store, DATASET, "image"))
    record = image.record(Image)
    sent = tmp_path / "sent.png"
    stored = installed.world.blobs.read(record.sha256, record.media_type)
    with Picture.open(io.BytesIO(stored)) as opened:
        opened.save(sent)
    asked = ("withdraw", "--file", str(sent), "--also", image.id, "--ground", "privacy")
    assert loupe(*asked, "--reason", "r", "--yes").exit_code == 0
    refused = refused_files(store)
    store.close()
    assert refused.keys() >= {record.sha256, sha256_of(sent.read_bytes())}


def test_a_video_that_somebody_sent_is_found_by_its_bytes(
    installed: Home, tmp_path: Path, loupe: Loupe
) -> None:
    sent = tmp_path / "sent.mp4"
    sent.write_bytes(b"no picture")
    facts = VideoFacts(width_px=64, height_px=64, frame_rate=25, codec="h264")
    record = Video(
        source="cam",
        file_path="a.mp4",
        sha256=sha256_of(sent.read_bytes()),
        size_bytes=10,
        facts=facts,
    )
    store = Store.open(f"sqlite:///{installed.folder / 'loupe.db'}")
    store_entities(store, [new_entity(record, DATASET)])
    store.close()
    shown = loupe("withdraw", "--file", str(sent), "--ground", "law", "--dry-run", "--json")
    assert shown.exit_code == 0
    assert [one["kind"] for one in shown.json["entities"]] == ["video"]
    assert "found by its bytes alone" in shown.err


def test_killed_again_and_again_it_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """SIGKILL, which nothing can answer: all runs but the last end so, soon after a step."""
    undisturbed = home_of(tmp_path / "undisturbed", small_world())
    undisturbed.withdraw("identity", "9", dataset=DATASET, source=SOURCE)
    home = home_of(tmp_path / "home", small_world())
    home.store.close()
    chance = random.Random(5)
    kills = 0
    for _ in range(3):
        run = start(home.folder)
        if run.wait_for(1, "✓") and not run.ended_within(chance.uniform(0, 0.02)):
            run.kill()
            kills += 1
    assert kills > 0
    last = start(home.folder)
    assert last.wait() == 0, last.output
    store = Store.open(f"sqlite:///{home.folder / 'loupe.db'}")
    assert left_of(home._replace(world=home.world._replace(store=store))) == left_of(undisturbed)
    store.close()
    undisturbed.store.close()


def start(home: Path) -> RunningProgram:
    arguments = (*ASKED, "--reason", "somebody asked for it", "--yes")
    return loupe_program(home, *arguments, variables=KEEP_COMPILED)
