"""Output of `loupe queue stats`."""

from pathlib import Path

import pytest

from loupe.db.store import Store
from tests.annotate.review_history import CAREFUL, captions_queue, weeks_of_work
from tests.flows.command_line import Loupe

QUEUE = captions_queue()


def test_stats_print_tables_and_write_the_page(
    loupe: Loupe, home_store: Store, tmp_path: Path
) -> None:
    weeks_of_work(home_store, QUEUE, items=60)
    page = tmp_path / "page.html"
    finished = loupe("queue", "stats", QUEUE.name, "--html", page)
    assert finished.exit_code == 0
    assert "street waits in captions for" in finished.out
    assert "answers still needed" in finished.out
    assert "Krippendorff" in finished.out
    assert CAREFUL.pseudonym in finished.out
    assert CAREFUL.name not in finished.out
    assert str(page) in finished.err
    assert CAREFUL.pseudonym in page.read_text(encoding="utf-8")


def test_stats_as_json_contain_names_only_with_the_option(loupe: Loupe, home_store: Store) -> None:
    weeks_of_work(home_store, QUEUE, items=30)
    (found,) = loupe("queue", "stats", QUEUE.name, "--json").json["queues"]
    assert {one["name"] for one in found["annotators"]} == {None}
    assert found["items"]["decided"] > 0
    (named,) = loupe("queue", "stats", QUEUE.name, "--json", "--names").json["queues"]
    assert CAREFUL.name in {one["name"] for one in named["annotators"]}


def test_without_a_queue_only_the_answers_for_the_lead_are_printed(
    loupe: Loupe, home_store: Store
) -> None:
    weeks_of_work(home_store, QUEUE, items=60)
    finished = loupe("queue", "stats", "--hourly-rate", "18.5")
    assert "at 18.50 an hour" in finished.out
    assert "Krippendorff" not in finished.out
    (left,) = loupe("queue", "stats", "--hourly-rate", "18.5", "--json").json["left"]
    assert left["cost"] == pytest.approx(18.5 * left["hours"])
    assert left["sentence"] in finished.out


def test_a_page_that_cannot_be_written_is_a_one_line_error(
    loupe: Loupe, home_store: Store, tmp_path: Path
) -> None:
    weeks_of_work(home_store, QUEUE, items=10)
    finished = loupe("queue", "stats", QUEUE.name, "--html", tmp_path / "none" / "page.html")
    assert finished.exit_code == 2
    assert "the page cannot be written" in finished.err


def test_an_empty_queue_is_reported(loupe: Loupe) -> None:
    assert "nothing to review yet" in loupe("queue", "stats").out
