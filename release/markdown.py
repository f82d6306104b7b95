"""Foreign text in Markdown: as it is, and never as markup."""

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$!^])")
_BLOCK_START = re.compile(r"^([0-9]+(?=[.)](?:\s|$))|(?=[-+=]))")
_WEB_ADDRESS = re.compile(r"https?://[^\s<>|`]+")


def as_text(value: object) -> str:
    """`value` as plain text within a line of Markdown: nothing in it is markup."""
    line = _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
    return _BLOCK_START.sub(r"\1\\", line)


def as_link(value: str) -> str:
    """`value` as a link where it is a web address, else as plain text."""
    return f"<{value}>" if _WEB_ADDRESS.fullmatch(value) else as_text(value)
