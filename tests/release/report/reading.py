"""Read the scripts of a report as its page does, and the rows of its release."""

import json
import re
from pathlib import Path
from typing import Any

from tests.release.export.kinds import truth

_SCRIPT = re.compile(r'loupeReport\("([a-z]+(?:/[a-z0-9]+)?)",(.*)\);\n', re.DOTALL)


def script(report: Path, name: str) -> Any:
    """The value passed to the page by the script of this name."""
    text = (report / "data" / f"{name}.js").read_text(encoding="utf-8")
    found = _SCRIPT.fullmatch(text)
    assert found is not None
    assert found[1] == name
    return json.loads(found[2])


def scripts(report: Path, kind: str) -> list[Any]:
    """The values of all scripts of a kind, by number."""
    names = sorted((report / "data" / kind).glob("*.js"), key=lambda path: int(path.stem))
    assert [path.stem for path in names] == [str(number) for number in range(len(names))]
    return [script(report, f"{kind}/{path.stem}") for path in names]


def columns_of_facet(report: Path, name: str) -> list[str]:
    """Values of all rows for a facet."""
    (facet,) = [one for one in script(report, "index")["facets"] if one["name"] == name]
    return [facet["values"][code] for code in facet["codes"]]


def rows_of(release: Path) -> list[dict[str, Any]]:
    """All rows of a release."""
    return truth(release)


def texts_of(row: dict[str, Any]) -> list[str]:
    """All texts of a row of a release."""
    contrast = row.get("contrast")
    return [
        *row["captions"],
        *(row.get("coarse_captions") or ()),
        *(one["text"] for one in row.get("translations") or ()),
        *((contrast["detail"], contrast["plan"]) if contrast else ()),
    ]


def rows_with(rows: list[dict[str, Any]], *beginnings: str) -> list[int]:
    """Numbers of the rows with a word starting with each of `beginnings` (ASCII only)."""
    found = []
    for number, row in enumerate(rows, 1):
        words = re.findall(r"[a-z0-9]+", " ".join(texts_of(row)).lower())
        if all(any(word.startswith(one) for word in words) for one in beginnings):
            found.append(number)
    return found
