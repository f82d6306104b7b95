"""Foreign text and shares in Markdown."""

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$!^])")
_BLOCK_START = re.compile(r"^([0-9]+(?=[.)](?:\s|$))|(?=[-+=]))")
_WEB_ADDRESS = re.compile(r"https?://[^\s<>|`]+")


def as_text(value: object) -> str:
    """`value` as plain text within a line of Markdown, with all markup escaped."""
    line = _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
    return _BLOCK_START.sub(r"\1\\", line)


def as_link(value: str) -> str:
    """`value` as a link if it is a web address, else as plain text."""
    return f"<{value}>" if _WEB_ADDRESS.fullmatch(value) else as_text(value)


def share_text(part: float, whole: float) -> str:
    """A share in per cent; 0 % and 100 % are only written if they are exact."""
    if not whole:
        return "–"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "> 99.9 %"
    return f"{share:.1f} %".replace(".0 %", " %")
