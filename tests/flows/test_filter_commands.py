"""`loupe filter explain`: its table, JSON and page."""

from pathlib import Path

import pytest

from loupe.db.store import Store
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.db.withdrawals import WithdrawalRequest, record_withdrawal
from loupe.flows.engine.software import software
from loupe.flows.ufine6926.noise_rules import RULES
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import Observation
from tests.flows.command_line import Loupe
from tests.flows.filter_world import FilterWorld, blobs_of, store_tracks, with_crops
from tests.flows.steps.tracklets.samples import observation, track, walk

DOCS = Path(__file__).parents[2] / "docs" / "noise-filter.md"
SETTINGS = FilterSettings(least_contrast=14)
"""Thresholds that differ from those of the profile."""


@pytest.fixture
def observations(home: Path) -> list[Observation]:
    """A person with one dark, one occluded and one suspected frame, then another person."""
    faulty = [
        observation(15, brightness=12, overlap=0.6),
        observation(20, overlap=0.31),
        observation(25, contrast=15.0),
    ]
    seen = [*walk([0] * 3), *faulty, *walk([1] * 4, begin=30)]
    return with_crops(seen, blobs_of(home))


@pytest.fixture
def world(home_store: Store, observations: list[Observation]) -> FilterWorld:
    """A filtered track, and a track whose frames are all dropped."""
    alone = track([observation(200, score=0.1)], 2)
    return store_tracks(home_store, [track(observations), alone], SETTINGS)


def test_a_track_is_explained_frame_by_frame(loupe: Loupe, world: FilterWorld) -> None:
    shown = loupe("filter", "explain", world.tracks[1])
    assert shown.exit_code == 0
    assert "track 1 of street/one.mp4" in shown.out
    assert f"thresholds of report {world.reports[1][:12]}" in shown.out
    rows = [line.split() for line in shown.out.splitlines()]
    lines = {(row[0], row[1]): row[2:] for row in reversed(rows) if len(row) > 2}  # the first block
    assert lines["too_dark", "darkest"][:6] == ["≥", "40", "120", "120", "120", "12.0✗"]
    assert lines["flat", "least_contrast"][:2] == ["≥", "14"]
    assert lines["flat", "least_contrast"][7] == "15.0?"
    assert lines["occluded", "most_overlap"][5:7] == ["0.600✗", "0.310✗"]
    assert lines["near_duplicate", "duplicate_bits"][5:7] == ["–", "–"]
    assert "another person may start at frame 30" in shown.out
    assert "part 1 keeps 4: 0, 5, 10, 25" in shown.out
    assert "part 2 keeps 4: 30, 35, 40, 45" in shown.out


def test_a_track_is_found_by_the_id_of_its_report_tracklet_or_crop(
    loupe: Loupe, world: FilterWorld, observations: list[Observation]
) -> None:
    whole = loupe("filter", "explain", world.tracks[1], "--json").json
    assert (whole["track"], whole["report"]) == (world.tracks[1], world.reports[1])
    assert whole["report_agrees"] is True
    assert whole["thresholds"]["least_contrast"] == 14
    assert len(whole["frames"]) == len(observations)
    for name in (world.reports[1], world.tracklets[1][1], world.tracks[1][:8]):
        assert loupe("filter", "explain", name, "--json").json == whole
    digest = observations[3].crop.sha256
    for name in (digest, digest[:12].upper()):
        one = loupe("filter", "explain", name, "--json").json
        (frame,) = one["frames"]
        assert (one["track"], frame["frame"], frame["crop"]) == (world.tracks[1], 15, digest)
        assert frame["part"] is None
        worst = [found for found in frame["measurements"] if found["outcome"] == "dropped"]
        assert {found["rule"] for found in worst} == {"too_dark", "occluded"}
        assert {found["setting"] for found in worst} == {"darkest", "most_overlap"}


def test_a_dropped_track_has_a_reason(loupe: Loupe, world: FilterWorld) -> None:
    shown = loupe("filter", "explain", world.reports[2]).out
    assert "the track is dropped by too_few_images: 0" in shown
    assert "0.100✗" in shown


def test_a_profile_shows_what_its_thresholds_would_do(
    loupe: Loupe, world: FilterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_PROFILE__FILTER__MOST_OVERLAP", "0.5")
    shown = loupe("filter", "explain", world.tracks[1], "--profile", "builtin")
    assert "thresholds of profile 'builtin'; the report in the store differs" in shown.out
    assert "part 1 keeps 5: 0, 5, 10, 20, 25" in shown.out
    unknown = loupe("filter", "explain", world.tracks[1], "--profile", "nothing")
    assert unknown.exit_code == 2


def test_a_track_without_a_report_is_explained_with_the_profile(
    loupe: Loupe, home_store: Store
) -> None:
    world = store_tracks(home_store, [track(walk([0] * 4))])
    shown = loupe("filter", "explain", world.tracks[1]).out
    assert "thresholds of profile 'builtin'; the store has no report on this track yet" in shown


def test_crops_withdrawn_before_the_report_are_left_out(
    loupe: Loupe, home_store: Store, observations: list[Observation]
) -> None:
    world = store_tracks(home_store, [track(observations)], SETTINGS, withdrawn=[0])
    request = WithdrawalRequest(
        WithdrawalTarget(sort="entity", name="gone"), "privacy", erases=True
    )
    digests = [observations[0].crop.sha256]
    record_withdrawal(
        home_store, "key", request, "r", software(), details={}, entities=(), refused=digests
    )
    shown = loupe("filter", "explain", world.tracks[1]).out
    assert f"thresholds of report {world.reports[1][:12]}; withdrawn crops left out: 1" in shown
    assert "part 1 keeps 3: 5, 10, 25" in shown


def test_unknown_ids_are_reported(loupe: Loupe, world: FilterWorld) -> None:
    for name, problem in (
        ("abc", "at least 6 digits"),
        ("0123456789", "no entity has an id that starts with"),
        ("%%%%%%%%", "no entity has an id that starts with"),
    ):
        refused = loupe("filter", "explain", name)
        assert refused.exit_code == 2
        assert problem in refused.err


def test_a_crop_of_two_tracks_asks_for_the_id_of_one(
    loupe: Loupe, home_store: Store, observations: list[Observation]
) -> None:
    world = store_tracks(home_store, [track(observations), track(observations, 2)])
    refused = loupe("filter", "explain", observations[0].crop.sha256)
    assert refused.exit_code == 2
    assert world.tracks[1][:12] in refused.err
    assert world.tracks[2][:12] in refused.err


def test_the_page_shows_crops_and_escapes_names(
    loupe: Loupe, home: Path, home_store: Store, tmp_path: Path
) -> None:
    stored = with_crops(walk([0] * 4), blobs_of(home))
    hostile = track([*stored, observation(90)], video="<script>alert(1)</script>.mp4")
    world = store_tracks(home_store, [hostile], SETTINGS)
    page = tmp_path / "page.html"
    assert loupe("filter", "explain", world.tracks[1], "--html", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count('<img src="data:image/jpeg;base64,') == 4
    assert text.count("not stored") == 1
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text
    unwritable = loupe("filter", "explain", world.tracks[1], "--html", tmp_path)
    assert unwritable.exit_code == 2


def test_the_table_fits_the_width_of_the_terminal(
    subtests: pytest.Subtests, loupe: Loupe, world: FilterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in [60, 80, 120, 200]:
        with subtests.test(columns=columns):
            monkeypatch.setattr("loupe.flows.cli.noise_filter.out._width", columns)
            lines = loupe("filter", "explain", world.tracks[1]).out.splitlines()
            table = [line for line in lines if any(rule.name in line for rule in RULES)]
            assert max(len(line) for line in table) <= columns
            assert "…" not in "".join(table)
            assert sum(line.strip().startswith("too_dark") for line in table) >= 1


def test_the_docs_contain_the_current_table_of_rules() -> None:
    defaults = FilterSettings()
    rows = [
        f"| `{rule.name}` | {rule.measure} | `{rule.setting}` "
        f"| {rule.sign} {rule.threshold(defaults):g} |"
        for rule in RULES
    ]
    table = "\n".join(("| rule | measured | setting | good |", "|---|---|---|---|", *rows))
    assert table in DOCS.read_text(encoding="utf-8")
