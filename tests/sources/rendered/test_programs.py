"""Drawn programs: what they print in each language, and how many of them differ."""

import shutil
import subprocess

import pytest

from loupe.sources.chance import Chance
from loupe.sources.rendered.code import FAMILIES, draw_program, fill_family

_RUN = {
    "python": ("python3", "-I", "-c"),
    "javascript": ("node", "-e"),
    "perl": ("perl", "-e"),
    "ruby": ("ruby", "-e"),
    "bash": ("bash", "--noprofile", "--norc", "-c"),
}


def test_programs_print_one_line() -> None:
    families = set()
    for number in range(400):
        program = draw_program(Chance("python", number))
        assert 0 < len(program.output.strip()) <= 60, program.text
        assert "\n" not in program.output
        families.add(program.family)
    assert len(families) >= 10


@pytest.mark.slow
def test_a_program_prints_its_output_in_every_language(subtests: pytest.Subtests) -> None:
    for language, command in _RUN.items():
        if shutil.which(command[0]) is None:
            continue
        with subtests.test(language=language):
            compared = 0
            for number, family in enumerate(FAMILIES):
                program = fill_family(family, Chance("languages", number)).get(language)
                if program is not None:
                    done = subprocess.run(
                        [*command, program.text], capture_output=True, text=True, check=True
                    )
                    assert done.stdout.strip() == program.output
                    compared += 1
            assert compared >= 5
