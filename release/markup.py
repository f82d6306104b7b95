"""Escaping of foreign text in Markdown, and values in YAML."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

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


_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def as_yaml(value: Any) -> str:
    """`value` (text, number, list or mapping) in one line of YAML."""
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def yaml_lines(values: Mapping[str, Any], indent: str = "") -> list[str]:
    """A mapping as lines of YAML, one value a line; nested mappings and lists are blocks."""
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{indent}{name}:", *yaml_lines(value, f"{indent}  ")]
        elif isinstance(value, Sequence) and not isinstance(value, str) and value:
            lines += [f"{indent}{name}:", *_items(value, indent)]
        else:
            lines.append(f"{indent}{name}: {_scalar(value)}")
    return lines


def _items(values: Sequence[Any], indent: str) -> list[str]:
    lines = []
    for value in values:
        if isinstance(value, Mapping):
            first, *rest = yaml_lines(value, f"{indent}  ")
            lines += [f"{indent}- {first.strip()}", *rest]
        else:
            lines.append(f"{indent}- {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    return value if is_plain and value.lower() not in _WORDS else as_yaml(value)


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
