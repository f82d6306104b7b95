"""Logins and origins of requests at the desk server."""

import pytest

from loupe.services.desk_server.loupe_desk.logins import (
    FREE_FAILURES,
    LONGEST_WAIT_SECONDS,
    MOST_REMEMBERED,
    LoginBrake,
)
from loupe.services.desk_server.loupe_desk.origin import is_foreign

ANNA, HERE, THERE = "anna@localhost", "127.0.0.1", "192.0.2.7"
OWN = {"http://127.0.0.1:8080"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_failed_logins_slow_down_the_next_ones_of_that_account_and_address() -> None:
    clock = Clock()
    brake = LoginBrake(clock)
    assert [brake.begin(ANNA, HERE) for _ in range(FREE_FAILURES)] == [0.0] * FREE_FAILURES
    assert brake.begin(" Anna@LOCALHOST", HERE) == 1.0
    assert brake.begin(ANNA, THERE) == brake.begin("ben@localhost", HERE) == 0.0
    waits = []
    for _ in range(9):
        waits.append(brake.begin(ANNA, HERE))
        clock.now += waits[-1]
        assert brake.begin(ANNA, HERE) == 0.0
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, LONGEST_WAIT_SECONDS]
    brake.succeed(ANNA, HERE)
    assert brake.begin(ANNA, HERE) == brake.begin(ANNA, HERE) == 0.0


def test_invented_accounts_take_bounded_memory() -> None:
    brake = LoginBrake(Clock())
    for number in range(MOST_REMEMBERED + 100):
        brake.begin(f"{number}@localhost" + "x" * 1000, HERE)
    assert len(brake) == MOST_REMEMBERED


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({"Origin": "http://127.0.0.1:8080"}, False),
        ({"Referer": "http://127.0.0.1:8080/user/login/"}, False),
        ({"Origin": "http://127.0.0.1:8081"}, True),
        ({"Origin": "https://127.0.0.1:8080"}, True),
        ({"Origin": "http://attacker.example"}, True),
        ({"Origin": "null", "Referer": "http://127.0.0.1:8080/"}, True),
        ({"Referer": "http://127.0.0.1:8080@attacker.example/"}, True),
        ({"Referer": "http://[broken"}, True),
        ({"Origin": "http://attacker.example", "Authorization": "Bearer x"}, True),
        ({}, True),
        ({"Authorization": "Bearer x"}, False),
    ],
)
def test_requests_that_change_something_come_from_our_pages_or_a_program(
    headers: dict[str, str], foreign: bool
) -> None:
    assert is_foreign(headers, OWN, logged_in=True) is foreign
    assert is_foreign(headers, OWN, logged_in=False) is (foreign and bool(headers))
