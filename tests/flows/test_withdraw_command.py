"""`loupe withdraw` and `loupe withdrawals`: plan, confirmation, kill, resume and lookup."""

import random
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from loupe.db.entities import find
from loupe.db.releases import adopt_folder, list_releases
from loupe.db.store import Store
from loupe.db.withdrawal_graph import WithdrawalTarget, own_digests
from loupe.db.withdrawals import list_withdrawals
from loupe.flows.engine.context import open_context
from loupe.flows.engine.importing import import_source
from loupe.flows.shards.steps import import_shards
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of
from loupe.models.profiles.settings import load_settings
from loupe.release.withdrawn.files import read_mark
from loupe.schemas.base import sha256_of
from loupe.schemas.build import SourceSpec
from loupe.schemas.records import Granularity, Image
from tests.flows.command_line import Loupe
from tests.flows.homes import bytes_of
from tests.flows.withdrawals import OPERATOR, Home, home_of, state_after_withdrawal
from tests.flows.worlds import RunningProgram, write_people, write_toml
from tests.flows.worlds import loupe as loupe_program
from tests.release.worlds import DATASET, SOURCES

SOURCE = SOURCES[1].name
PERSON = ("--identity", "9", "--source", SOURCE, "--dataset", DATASET)
COMMAND = ("withdraw", *PERSON, "--ground", "privacy")


@pytest.fixture
def installed(home: Path) -> Home:
    """An installation with a release."""
    installation = home_of(home)
    installation.store.close()
    return installation


def test_a_dry_run_shows_the_plan_and_changes_nothing(installed: Home, loupe: Loupe) -> None:
    shown = loupe(*COMMAND, "--dry-run")
    assert shown.exit_code == 0
    assert "icfg-pedes" in shown.out
    assert "2 of 12" in shown.out
    assert "1.0.1" in shown.out
    assert "2 stored files and their vectors would be erased" in shown.out
    output = loupe(*COMMAND, "--dry-run", "--json").json
    assert {one["dataset"] for one in output["entities"]} == {DATASET, "icfg-pedes"}
    assert [one["version"] for one in output["patches"]] == ["1.0.1"]
    assert "nothing was withdrawn" in loupe("withdrawals").out


@pytest.mark.usefixtures("installed")
def test_without_a_confirmation_or_a_reason_nothing_is_done(loupe: Loupe) -> None:
    for arguments, wanted in (
        (("--reason", "asked"), "no terminal to confirm it"),
        (("--yes",), "needs a reason"),
        (("--yes", "--reason", " "), "needs a reason"),
    ):
        refused = loupe(*COMMAND, *arguments)
        assert (refused.exit_code, wanted in refused.err) == (2, True), arguments
    assert loupe("withdrawals", "--json").json == []


@pytest.mark.usefixtures("installed")
def test_an_ambiguous_or_unknown_target_is_a_usage_error(loupe: Loupe) -> None:
    cases: list[tuple[tuple[str, ...], str]] = [
        ((), "name one item"),
        (("abcdef", "--video", "a.mp4"), "name one item"),
        (("--identity", "9"), "say which with --dataset"),
        (("--identity", "nobody", "--dataset", DATASET), "no entity in the store matches"),
        (("--identity", "9", "--dataset", DATASET), "say which with --source"),
        (("abcdef0",), "no entity has an id"),
        (("abcdef0", "--dataset", DATASET), "leave --dataset out"),
        (("--annotator", "reviewer-1", "--dataset", DATASET), "leave --dataset out"),
        (("images/5.jpg",), "name its release"),
        (("images/99.jpg", "--release", DATASET), "has no row"),
        (("images/5.jpg", "--release", "nosuch"), "no release named"),
        (("--video", "a.mp4", "--release", DATASET), "--release goes with"),
        (("--identity", "3", "--release", DATASET, "--dataset", DATASET), "leave these out"),
        (("--identity", "3", "--release", DATASET, "--source", SOURCE), "leave these out"),
        (("--resume",), "leave the other options out"),
    ]
    failures = []
    for arguments, wanted in cases:
        refused = loupe("withdraw", *arguments, "--ground", "privacy", "--dry-run")
        if refused.exit_code != 2 or wanted not in refused.err:
            failures.append((arguments, refused.err))
    assert failures == []


def test_the_ground_must_be_a_known_one(installed: Home, loupe: Loupe) -> None:
    for ground in ((), ("--ground", "spite")):
        refused = loupe("withdraw", *PERSON, *ground, "--dry-run")
        assert refused.exit_code == 2
        assert "--ground" in refused.err


def test_a_withdrawal_can_be_looked_up_and_repeated(installed: Home, loupe: Loupe) -> None:
    done = loupe(*COMMAND, "--reason", "a letter of May 3rd", "--yes", "--json")
    assert done.exit_code == 0
    assert done.json["state"] == "finished"
    key = done.json["key"]
    shown = loupe("withdrawals", key[:8])
    assert "Not reached from here" in shown.out
    assert loupe("withdrawals", key[:8], "--json").json == done.json
    assert "a letter of May 3rd" in shown.out
    assert f"release {DATASET} 1.0.1" in shown.out
    again = loupe(*COMMAND, "--reason", "a letter of May 3rd", "--yes")
    assert again.exit_code == 0
    assert "nothing is left to do" in again.out
    assert [one["key"] for one in loupe("withdrawals", "--json").json] == [key]
    assert "every withdrawal is finished" in loupe("withdraw", "--resume").out
    tombstone = loupe("lineage", done.json["entities"][0]).out
    assert "(withdrawn)" in tombstone
    assert key[:12] in tombstone


def test_a_copied_home_withdraws_from_its_own_releases(installed: Home, loupe: Loupe) -> None:
    original = installed.folder.with_name("original")
    shutil.copytree(installed.folder, original)
    before = bytes_of(original / "releases")
    installed.folder.rename(moved := installed.folder.with_name("moved"))
    shutil.copytree(moved, installed.folder)
    assert loupe(*COMMAND, "--reason", "r", "--yes").exit_code == 0
    assert read_mark(installed.release("1.0.0")) is not None
    assert bytes_of(original / "releases") == bytes_of(moved / "releases") == before
    with closing(Store.open(f"sqlite:///{moved / 'loupe.db'}")) as store:
        (stored,) = list_releases(store)
    assert stored.folder == moved / "releases" / f"{DATASET}-1.0.0"


@pytest.mark.parametrize("is_named", [True, False])
def test_folders_outside_the_home_are_changed_only_if_they_were_named(
    installed: Home, loupe: Loupe, tmp_path: Path, is_named: bool
) -> None:
    def move(folder: Path, to: Path) -> Path:
        folder.rename(to)
        with closing(Store.open(f"sqlite:///{installed.folder / 'loupe.db'}")) as store:
            manifest = list_releases(store)[0].manifest
            adopt_folder(store, manifest.id, to, lambda _folder: False)
        return to

    outside = move(installed.release("1.0.0"), tmp_path / "outside")
    leftover = tmp_path / ".other.building-x"
    leftover.mkdir()
    assert (
        f"outside the home, would be changed as well: {outside}" in loupe(*COMMAND, "--dry-run").out
    )
    store = Store.open(f"sqlite:///{installed.folder / 'loupe.db'}")
    run = replace(installed.run, store=store)
    target = WithdrawalTarget(sort="identity", name="9", dataset=DATASET, source=SOURCE)
    plan = plan_withdrawal(store, request_of(target, "privacy", None))
    withdrawal = confirm(store, plan, "r", OPERATOR)
    folder = outside if is_named else move(outside, tmp_path / "elsewhere")
    carry_out(run, withdrawal)
    store.close()
    assert (read_mark(folder) is not None) == is_named
    shown = " ".join(loupe("withdrawals", "1").out.split())
    assert (f"{folder} is outside the home and was not named" in shown) == (not is_named)
    assert str(leftover) in loupe("withdrawals", "1", "--json").json["not_reached"]["made_before"]
    assert leftover.exists()


def people_named(name: str, folder: Path) -> SourceSpec:
    """A source of three people with an image and a caption each."""
    people = folder / "annotations.json"
    if not people.exists():
        people = write_people(folder, Granularity.COARSE, identities=3, images=1, captions=1)
    return SourceSpec(
        name=name,
        format="cuhk-pedes",
        annotations=people,
        images=people.parent,
        split="test",
        licence="CC0-1.0",
        citation="c",
    )


@pytest.mark.usefixtures("home")
def test_a_record_of_a_shard_becomes_an_entity_only_to_be_withdrawn(
    tmp_path: Path, loupe: Loupe
) -> None:
    context = open_context(load_settings())
    import_shards(context, people_named("big", tmp_path / "people"))
    digest = sha256_of((tmp_path / "people" / "0002_0.jpg").read_bytes())
    command = ("withdraw", digest, "--ground", "privacy")
    for options, message in {
        ("--dry-run",): "that image is in record 1 of the shards of 'big', not in the store",
        (): "needs a reason",
        ("--reason", "r"): "there is no terminal to confirm it",
        ("--reason", "r", "--yes", "--dataset", "big"): "leave --dataset out",
    }.items():
        refused = loupe(*command, *options)
        assert (refused.exit_code, message in refused.err) == (2, True), refused.err
    assert list(find(context.store, "big", Image.kind)) == []
    assert loupe(*command, "--reason", "r", "--yes").exit_code == 0
    (image,) = find(context.store, "big", Image.kind, states=("withdrawn",))
    assert digest in own_digests(image.kind, image.payload)
    context.store.close()


def test_a_withdrawn_image_is_not_imported_again(home: Path, tmp_path: Path, loupe: Loupe) -> None:
    context = open_context(load_settings())

    def import_people(name: str) -> list[str]:
        import_source(context, people_named(name, tmp_path / "people"))
        return [one.record(Image).sha256 for one in find(context.store, name, "image")]

    imported = import_people("first")
    withdrawn = sha256_of((tmp_path / "people" / "0002_0.jpg").read_bytes())
    assert withdrawn in imported
    command = (
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
    assert loupe("withdraw", *command).exit_code == 0
    again = import_people("second")
    assert sorted(again) == sorted(set(imported) - {withdrawn})
    assert not context.blobs.has(withdrawn, "image/png")
    output = loupe("quarantine", "second", "--json")
    assert "withdrawn" in output.out
    (withdrawal,) = list_withdrawals(context.store)
    assert withdrawal.key[:12] in output.out
    context.store.close()


@pytest.mark.soak
@pytest.mark.xdist_group("kill")
def test_a_killed_withdrawal_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    """Send SIGKILL soon after the first step; `test_withdrawal` covers all steps."""
    undisturbed = home_of(tmp_path / "undisturbed")
    undisturbed.withdraw("identity", "9", dataset=DATASET, source=SOURCE)
    home = home_of(tmp_path / "home")
    home.store.close()
    run = start(home.folder)
    assert run.wait_for(1, "✓")
    assert not run.ended_within(random.Random(5).uniform(0, 0.02))
    run.kill()
    last = start(home.folder)
    assert last.wait() == 0, last.output
    store = Store.open(f"sqlite:///{home.folder / 'loupe.db'}")
    assert state_after_withdrawal(
        home._replace(world=home.world._replace(store=store))
    ) == state_after_withdrawal(undisturbed)
    store.close()
    undisturbed.store.close()


def start(home: Path) -> RunningProgram:
    arguments = (*COMMAND, "--reason", "somebody asked for it", "--yes")
    return loupe_program(home, *arguments)


def test_the_plan_names_exactly_what_is_erased(installed: Home, loupe: Loupe) -> None:
    """After the withdrawal, exactly the files that the plan names are missing."""
    page = installed.folder / "reports" / f"{DATASET}-captions.html"
    page.parent.mkdir()
    page.touch()
    shown = loupe(*COMMAND, "--dry-run")
    assert "the person named" in shown.out
    assert "images/5.jpg, images/6.jpg" in shown.out
    assert "dir/0.jpg, dir/1.jpg" in shown.out
    assert f"reports/{page.name}" in shown.out
    output = loupe(*COMMAND, "--dry-run", "--json").json
    (release,) = output["releases"]
    assert f"would be marked, and {len(release['erased'])} files erased" in shown.out
    assert {row["file_path"] for row in release["rows"]} == {"images/5.jpg", "images/6.jpg"}
    assert release["people"] == [3]
    assert output["pages"] == [f"reports/{page.name}"]
    images = [one for one in output["entities"] if one["kind"] == "image"]
    assert {one["file_path"] for one in images} == {"dir/0.jpg", "dir/1.jpg"}
    assert {one["identity"] for one in images} == {"9"}
    assert all(one["text"] for one in output["entities"] if one["kind"] in ("caption", "rewrite"))
    folder = installed.release("1.0.0")
    before = files_in(folder)
    assert loupe(*COMMAND, "--reason", "r", "--yes").exit_code == 0
    assert before - files_in(folder) == set(release["erased"])
    assert not page.exists()


def files_in(folder: Path) -> set[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in paths}


def test_a_target_can_be_named_by_row_or_person_of_a_release(installed: Home, loupe: Loupe) -> None:
    wanted = loupe(*COMMAND, "--dry-run", "--json").json
    release = ("--release", str(installed.release("1.0.0")))
    options = ("--ground", "privacy", "--dry-run", "--json")
    assert loupe("withdraw", "--identity", "3", *release, *options).json == wanted
    row = loupe("withdraw", "images/5.jpg", *release, *options).json
    assert row["entities"][0]["file_path"] == "dir/0.jpg"
    assert [one["file_path"] for one in row["releases"][0]["rows"]] == ["images/5.jpg"]


def test_residual_copies_are_listed_at_the_end(installed: Home, loupe: Loupe) -> None:
    old = str(installed.release("1.0.0"))
    export = installed.folder / "releases" / "coco"
    assert loupe("release", "export", old, "--format", "coco", "--out", str(export)).exit_code == 0
    done = loupe(*COMMAND, "--reason", "r", "--yes")
    _, output = done.out.split("Not reached from here")
    assert str(export) in output
    assert f"the files that {SOURCE} was imported from: dir/0.jpg, dir/1.jpg" in output
    assert str(installed.folder / "notices" / f"{DATASET}.json") in output


def test_an_unfinished_withdrawal_is_not_shown_as_erased(installed: Home, loupe: Loupe) -> None:
    store = Store.open(f"sqlite:///{installed.folder / 'loupe.db'}")
    home = installed._replace(world=installed.world._replace(store=store))
    home.confirmed(home.plan("identity", "9", dataset=DATASET, source=SOURCE))
    store.close()
    listed = " ".join(loupe("withdrawals").out.split())
    assert "to be" in listed
    assert "--resume" in listed
    assert "not finished" in loupe("release", "list").err
    planned = loupe(*COMMAND, "--dry-run", "--json")
    assert "not finished" in planned.err
    assert not planned.json["done"]
    source = {"name": "s", "format": "ufine6926", "annotations": "none.json", "images": "."}
    build = {"dataset": "d", "gate": "auto", "sources": [{**source, "granularity": "fine"}]}
    file = write_toml(installed.folder / "build.toml", build)
    started = loupe("run", "build-ufine3c", "--config", file, "--in-process")
    assert "not finished" in started.err
    assert loupe("withdraw", "--resume").exit_code == 0
    assert "finished" in loupe("withdrawals").out
    assert "to be" not in loupe("withdrawals").out
    assert "not finished" not in loupe("release", "list").err


def command_with_ground(ground: str) -> tuple[str, ...]:
    return ("withdraw", *PERSON, "--ground", ground)


def test_items_that_are_already_withdrawn_are_reported(installed: Home, loupe: Loupe) -> None:
    assert loupe(*command_with_ground("quality"), "--reason", "r", "--yes").exit_code == 0
    shown = loupe(*command_with_ground("consent"), "--dry-run")
    assert "withdrawn before" in shown.out
    again = loupe(*command_with_ground("quality"), "--erase", "--dry-run")
    assert "everything is already withdrawn" in again.out


class Killed(BaseException):
    """Simulates the end of the process."""


def test_after_confirmation_every_reader_of_the_release_is_warned(
    installed: Home, loupe: Loupe, tmp_path: Path
) -> None:
    """Readers are warned if the withdrawal is killed before the first or after any step."""
    store = Store.open(f"sqlite:///{installed.folder / 'loupe.db'}")
    home = installed._replace(world=installed.world._replace(store=store))
    run = replace(home.run, store=store)
    withdrawal = home.confirmed(home.plan("identity", "9", dataset=DATASET, source=SOURCE))
    copy = tmp_path / "copy"
    shutil.copytree(home.release("1.0.0"), copy)
    old = str(home.release("1.0.0"))
    done: list[str] = []

    def kill_after_new_step(name: str, _details: object) -> None:
        if name not in done:
            done.append(name)
            raise Killed

    while True:
        listed = loupe("release", "list", "--json").json
        assert [one["withdrawal"]["rows"] for one in listed if one["version"] == "1.0.0"] == [2]
        if len(done) < 3:  # later steps change nothing for readers of files
            for folder in (old, str(copy)):
                output = loupe("release", "verify", folder, "--json")
                assert output.exit_code == 1, done
                assert "withdrawn" in {one["fault"] for one in output.json["problems"]}, done
            assert "withdrawn in part" in loupe("release", "show", f"{DATASET}@1.0.0").err
            refused = loupe("release", "upload", str(copy), "--to", "me/x")
            assert refused.exit_code == 2
            assert "it is not uploaded" in refused.err
            out = tmp_path / f"export {len(done)}"
            exported = loupe("release", "export", str(copy), "--format", "coco", "--out", str(out))
            assert "withdrawn in part" in exported.err
            report = tmp_path / f"report {len(done)}"
            reported = loupe("release", "report", str(copy), "--out", str(report), "--json")
            assert reported.json["withdrawn"] == 2
        try:
            carry_out(run, withdrawal, kill_after_new_step)
        except Killed:
            continue
        break
    assert done[:2] == ["write notices", f"mark {DATASET} 1.0.0"]
    assert f"release {DATASET} 1.0.1" in done
    store.close()
