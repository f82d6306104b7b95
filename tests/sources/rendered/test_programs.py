"""Drawn programs: what they print in each language, and how many of them differ."""

import contextlib
import io
import shutil

import pytest

from sources.demonstration.people import Chance
from sources.rendered.code import FAMILIES, draw_program, fill_family
from sources.rendered.sandbox import LANGUAGES, available_languages, run_program

_ALL = tuple(LANGUAGES)


def _printed_here(text: str) -> str:
    """Run a Python program in this process and return its output."""
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        exec(compile(text, "program", "exec"), {"__name__": "program"})  # noqa: S102
    return buffer.getvalue()


def test_python_programs_end_and_print_one_line() -> None:
    families = set()
    for number in range(400):
        program = draw_program(Chance("python", number), ("python",))
        printed = _printed_here(program.text)
        assert printed.endswith("\n")
        assert 0 < len(printed.strip()) <= 60, program.text
        assert printed.count("\n") == 1
        families.add(program.family)
    assert len(families) >= 10


def test_a_family_prints_the_same_in_every_language(subtests: pytest.Subtests) -> None:
    for language in available_languages()[1:]:  # Python is the reference
        with subtests.test(language=language):
            compared = 0
            for number, family in enumerate(FAMILIES):
                programs = fill_family(family, Chance("languages", number))
                if language in programs:
                    printed = run_program(language, programs[language].text)
                    assert isinstance(printed, str), printed
                    assert printed.strip() == _printed_here(programs["python"].text).strip()
                    compared += 1
            assert compared >= 5


def test_a_python_program_does_not_depend_on_other_interpreters() -> None:
    for number in range(200):
        many = draw_program(Chance("alike", number), _ALL)
        few = draw_program(Chance("alike", number), ("python",))
        assert few.language == "python"
        if many.language == "python":
            assert many == few


def test_available_languages_are_those_with_an_installed_interpreter() -> None:
    assert available_languages(lambda _: None) == ("python",)
    found = available_languages(lambda command: "/bin/it" if command == "perl" else None)
    assert found == ("python", "perl")
    assert set(available_languages(shutil.which)) <= set(_ALL)
