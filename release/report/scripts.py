"""Values as scripts: what a page that was opened from the disk can load bit by bit."""

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECEIVER = "loupeReport"
"""The function of the page that is handed what a script holds."""
DATA = "data"
"""The folder of scripts, below that of the report."""

_UNSAFE = {
    ord(character): f"\\u{ord(character):04x}"
    for character in ("<", ">", "&", "\u2028", "\u2029", "\ufeff")
}


def script_json(value: Any) -> str:
    """`value` as JSON that is safe in a script, also inside HTML.

    Nothing in it can end a script or begin a comment, and no character ends a line in JavaScript
    that does not in JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_UNSAFE)


def script_text(name: str, value: Any) -> str:
    """A script that hands `value` to the page as what it asked for by `name`."""
    return f"{RECEIVER}({script_json(name)},{script_json(value)});\n"


def packed(values: bytes | bytearray) -> str:
    """Bytes as base64."""
    return b64encode(values).decode("ascii")


class ScriptWriter:
    """Writes `data/<kind>/<number>.js` one after the other, each with some rows.

    `size` is how many rows a script holds; the first holds those with the places 0 to `size` − 1.
    """

    def __init__(self, folder: Path, kind: str, size: int) -> None:
        self.size = size
        self.written = 0
        self._folder = folder
        self._kind = kind
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:
        """Appends a row; a script is written as soon as it is full."""
        self._rows.append(row)
        if len(self._rows) == self.size:
            self.finish()

    def finish(self) -> None:
        """Writes what is left."""
        if self._rows:
            self.write(self._rows)
            self._rows = []

    def write(self, value: Sequence[Any] | dict[str, Any]) -> None:
        """Writes the next script with a value of any form."""
        write_script(self._folder, f"{self._kind}/{self.written}", value)
        self.written += 1


def write_script(folder: Path, name: str, value: Any) -> None:
    """Writes the script that is asked for by `name` below `folder`."""
    path = folder / DATA / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script_text(name, value), encoding="utf-8", newline="\n")
