"""The table of differences from the papers is true of the files and settings that it names."""

from functools import reduce

from benchmarks.differences import DOCS, PAGE, differences, page
from loupe.models.profiles.loader import load_profile


def test_the_page_is_written_from_the_file() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make reference`"


def test_every_difference_names_files_that_exist() -> None:
    for one in differences():
        for key in ("where", "checked"):
            assert (DOCS.parent / one[key]).is_file(), one[key]
        assert one["says"].endswith(".")
        assert one["does"].endswith(".")


def test_every_named_setting_has_its_value() -> None:
    named = [one["setting"] for one in differences() if "setting" in one]
    assert len(named) >= 5
    for profile, key, value in named:
        assert reduce(getattr, key.split("."), load_profile(profile)) == value, key
