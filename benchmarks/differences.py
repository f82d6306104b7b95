"""The table of deliberate differences from the papers, written from `docs/differences.toml`.

`python -m benchmarks.differences` (`make reference`) writes `docs/differences.md`.
"""

import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "differences.md"
_HEAD = """# Differences from the papers

Where Loupe deliberately differs from the papers, or how it reads them where they are silent or contradict themselves. What their tables print wrongly is marked `disputed` by [`loupe reproduce`](reproduction.md). This page is written by `make reference` from `differences.toml`.
"""  # noqa: E501 - a line of Markdown


def differences() -> list[dict[str, Any]]:
    """Return all differences, in the order of the file."""
    found: list[dict[str, Any]] = tomllib.loads((DOCS / "differences.toml").read_text("utf-8"))[
        "differences"
    ]
    return found


def page() -> str:
    """Return the page: a table for each paper."""
    lines, paper = [_HEAD], None
    for one in differences():
        if one["paper"] != paper:
            paper = one["paper"]
            gap = [] if len(lines) == 1 else [""]
            lines += [*gap, f"## {paper}", "", "| place | the paper | Loupe | where, checked by |"]
            lines.append("|---|---|---|---|")
        files = [one["where"], one["checked"]]
        links = ", ".join(f"[{Path(file).name}](../{file})" for file in files)
        lines.append(f"| {one['place']} | {one['says']} | {one['does']} | {links} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
