"""Withdrawals erase the pages of the affected datasets and no others."""

from pathlib import Path

from loupe.flows.withdrawal.plan import erase_pages

OF_TASKS = [
    "leaderboards/tasks-1.0.0-test/leaderboard.html",
    "leaderboards/tasks-1.0.0-test/leaderboard.json",
    "leaderboards/tasks-1.0.1-val/leaderboard.html",
    "reports/.tasks-captions.html",
    "reports/tasks-captions.html",
    "reports/tasks-choices.html",
    "reports/tasks-whatever-comes-next.html",
    "reports/tasks.html",
]
OF_OTHERS = [
    "leaderboards/tasks-two-1.0.0-test/leaderboard.html",
    "releases/tasks-1.0.0/manifest.json",
    "reports/tasks-two-captions.html",
    "reports/tasksmith-captions.html",
    "reports/walkers-captions.html",
]


def test_exactly_the_pages_of_the_affected_datasets_are_erased(tmp_path: Path) -> None:
    for name in (*OF_TASKS, *OF_OTHERS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    removed = erase_pages(tmp_path, ["tasks", "tasks"], known=["tasks", "tasks-two", "walkers"])
    assert removed == [
        "reports/.tasks-captions.html",
        "reports/tasks-captions.html",
        "reports/tasks-choices.html",
        "reports/tasks-whatever-comes-next.html",
        "reports/tasks.html",
        "leaderboards/tasks-1.0.0-test",
        "leaderboards/tasks-1.0.1-val",
    ]
    left = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file())
    assert left == OF_OTHERS
    assert erase_pages(tmp_path, ["tasks"], known=["tasks-two"]) == []
