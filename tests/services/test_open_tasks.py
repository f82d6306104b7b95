"""Which tasks may be taken back."""

from loupe.services.desk_server.loupe_desk.open_tasks import AHEAD_SECONDS, OPEN_SECONDS, OpenTasks


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def nothing_begun(_: set[int]) -> set[int]:
    return set()


def test_an_open_task_is_free_after_an_hour_and_one_loaded_ahead_after_minutes() -> None:
    clock = Clock()
    tasks = OpenTasks(clock)
    tasks.open(1)
    tasks.load_ahead(2)
    assert tasks.take([1, 2, 3], nothing_begun) == [3]
    clock.now = AHEAD_SECONDS
    assert tasks.take([1, 2], nothing_begun) == [2]
    tasks.still_open(1)  # the page is open, but nobody works
    clock.now = OPEN_SECONDS
    assert tasks.take([1], nothing_begun) == [1]


def test_the_task_that_was_loaded_ahead_is_open_once_it_is_on_the_screen() -> None:
    clock = Clock()
    tasks = OpenTasks(clock)
    tasks.load_ahead(1)
    tasks.still_open(1)
    clock.now = AHEAD_SECONDS
    assert tasks.take([1], nothing_begun) == []


def test_an_answer_comes_before_or_after_the_taking_but_never_both() -> None:
    tasks = OpenTasks()
    assert tasks.begin(1)
    assert tasks.take([1, 2, 3], lambda _: {3}) == [2]
    assert not tasks.begin(2)
    tasks.release([2])
    assert tasks.begin(2)
