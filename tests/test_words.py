"""The texts of the product contain none of the `ODD_WORDS` of `benchmarks.measure`."""

import io
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import ODD_WORDS, ROOT, packages

STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
TEXTS = {".md", ".j2", ".yaml", ".xml", ".html", ".js"}
WORDS_ARE_DATA = ("prompts/", "sources/rendered/", "benchmarks/measure.py")


def test_no_text_contains_an_odd_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {', '.join(words)}: {line.strip()}"
        for path in documented_files()
        for number, line in lines_of_text(path)
        if (words := ODD_WORDS.findall(line))
    ]
    assert not found, "\n".join(found)


def documented_files() -> Iterator[Path]:
    """Yield the product's code and texts, except the changelog, prompts and drawn scenes."""
    folders = [*packages(), "docs", "benchmarks", "README.md", "CONTRIBUTING.md"]
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".py", *TEXTS} and not name.startswith(WORDS_ARE_DATA):
            yield path


def lines_of_text(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text, or of the strings and comments of a module.

    Files without an odd word are skipped.
    """
    text = path.read_text(encoding="utf-8")
    if not ODD_WORDS.search(text):
        return
    if path.suffix in TEXTS:
        yield from enumerate(text.splitlines(), start=1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in STRINGS or token.type == tokenize.COMMENT:
            yield from enumerate(token.string.splitlines(), start=token.start[0])
