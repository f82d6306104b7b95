"""The programming languages of code tasks, and which of them this machine can run."""

import shutil
import sys
from collections.abc import Callable

from schemas.base import Record

Which = Callable[[str], str | None]

_MIB = 1024 * 1024


class Language(Record):
    """How a program of one language is run.

    Attributes:
        name: what `run_program` and a truth call it; also its lexer in Pygments.
        title: what people call it.
        suffix: of its files.
        command: the interpreter's name on the search path.
        flags: what stands before the text of the program.
        memory_bytes: address space that its interpreter reserves beyond what a program may use.
        starts_threads: whether the interpreter itself needs threads or processes.
    """

    name: str
    title: str
    suffix: str
    command: str
    flags: tuple[str, ...]
    memory_bytes: int = 0
    starts_threads: bool = False


PYTHON = Language(
    name="python",
    title="Python",
    suffix=".py",
    command="python3",
    flags=("-I", "-S", "-B", "-c"),
)
LANGUAGES = (
    PYTHON,
    Language(
        name="javascript",
        title="JavaScript",
        suffix=".js",
        command="node",
        flags=("--max-old-space-size=64", "-e"),
        memory_bytes=2048 * _MIB,  # reserved at start, most of it never touched
        starts_threads=True,
    ),
    Language(name="perl", title="Perl", suffix=".pl", command="perl", flags=("-e",)),
    Language(
        name="ruby",
        title="Ruby",
        suffix=".rb",
        command="ruby",
        flags=("--disable-all", "-e"),
        memory_bytes=512 * _MIB,
        starts_threads=True,
    ),
    Language(
        name="bash",
        title="Bash",
        suffix=".sh",
        command="bash",
        flags=("--noprofile", "--norc", "-c"),
    ),
)
LANGUAGES_BY_NAME = {language.name: language for language in LANGUAGES}


def interpreter_of(language: Language, which: Which = shutil.which) -> str | None:
    """The interpreter's path, or None where there is none. Python is the one that runs this."""
    return sys.executable if language == PYTHON else which(language.command)


def available_languages(which: Which = shutil.which) -> tuple[str, ...]:
    """The names of the languages whose interpreter is present; Python always is."""
    return tuple(one.name for one in LANGUAGES if interpreter_of(one, which) is not None)
