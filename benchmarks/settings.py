"""The reference of settings, `docs/settings.md`, written from the models that read the files.

`python -m benchmarks.settings` (`make reference`) writes it.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from griffe import Docstring, DocstringSectionAttributes, DocstringSectionText
from pydantic.fields import FieldInfo

from loupe.schemas.base import Record
from loupe.schemas.build import CcdBuild, RecosBuild, UFine3CBuild, UFine6926Build
from loupe.schemas.profile import Profile

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
BUILDS: dict[str, type[Record]] = {
    "build-ufine3c": UFine3CBuild,
    "build-ufine6926": UFine6926Build,
    "build-recos": RecosBuild,
    "build-ccd": CcdBuild,
}
_HEAD = """# Settings

Every key of build files and profiles, with its type and default. [Build files](build-files.md) and [profiles](profiles.md) explain how to use them; the variables of the environment are in [services](services.md#settings). This page is written by `make reference` from the models in `schemas/`; change their docstrings instead.

A heading such as `[captioning.confusion]` is the table of the file in which the keys stand. Where a table names a model, `provider` says which keys it may have."""  # noqa: E501 - lines of Markdown
EXPLAINED = {
    "build-ufine3c": "build-files.md#build-ufine3c",
    "build-ufine6926": "build-files.md#build-ufine6926",
    "build-recos": "build-files.md#build-recos",
    "build-ccd": "build-files.md#build-ccd",
    "sources": "build-files.md#keys-of-sources",
    "tasks": "build-files.md#build-recos",
    "rewrite": "profiles.md#write-a-profile",
    "rewrite.models": "profiles.md#write-a-profile",
    "faithfulness": "profiles.md#checks-of-texts",
    "judge": "profiles.md#a-second-opinion-on-rewrites",
    "describe": "profiles.md#write-a-profile",
    "tracking": "profiles.md#people-in-videos",
    "tracking.association": "video.md#association",
    "tracking.detector": "profiles.md#people-in-videos",
    "filter": "noise-filter.md#rules",
    "filter.pose_model": "profiles.md#people-in-videos",
    "captioning": "recos.md#models",
    "captioning.embedder": "embedders.md#options-by-provider",
    "captioning.near_duplicates": "near-duplicates.md",
    "contrast": "ccd.md",
    "contrast.choice": "ccd.md#choosing-a-search-result",
    "contrast.editor": "ccd.md#editing-with-qwen-image-edit",
    "contrast.search": "image-search.md",
    "contrast.download": "image-search.md#downloads",
    "evaluation": "embedders.md",
}
"""The page that explains the keys of a table."""
_PLAIN = {str: "text", int: "number", float: "number", bool: "true or false", Path: "path"}


def page() -> str:
    """Return the page."""
    shown: set[type[Record]] = set()
    lines = [_HEAD, "", "## Build files", ""]
    for name, form in BUILDS.items():
        lines += _sections(form, f"`{name}`", (name,), shown)
    lines += ["## Profiles", ""]
    lines += _sections(Profile, "The profile", (), shown)
    return "\n".join(lines)


def _sections(
    form: type[Record], heading: str, path: tuple[str, ...], shown: set[type[Record]]
) -> Iterator[str]:
    """Yield the section of a model, then those of the models in its fields, each once."""
    if form in shown:
        return
    shown.add(form)
    texts, said = _documented(form)
    meanings = {key: said[key] for key in form.model_fields if key in said}
    yield from (f"### {heading}", "", *texts)
    if explained := EXPLAINED.get(".".join(path)):
        yield from (f"[More about these keys]({explained}).", "")
    columns = ["key", "type", "default", *(["meaning"] if meanings else [])]
    yield from (_cells(columns), "|" + "---|" * len(columns))
    for key, field in form.model_fields.items():
        cells = [f"`{key}`", _type(field.annotation), _default(field)]
        yield _cells([*cells, meanings.get(key, "")] if meanings else cells)
    yield ""
    for key, field in form.model_fields.items():
        for inner in dict.fromkeys(_forms_in(field.annotation)):
            place = (key,) if path and path[0] in BUILDS else (*path, key)
            yield from _sections(inner, _heading(inner, field, place), place, shown)


def _heading(form: type[Record], field: FieldInfo, path: tuple[str, ...]) -> str:
    provider = form.model_fields.get("provider")
    if provider is not None:
        return f"`provider = {_type(provider.annotation).strip('`')}` ({form.__name__})"
    is_list = get_origin(field.annotation) is tuple
    name = ".".join(path)
    return f"`[[{name}]]`" if is_list else f"`[{name}]`"


def _cells(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    shown = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |"


def _documented(form: type[Record]) -> tuple[list[str], dict[str, str]]:
    """Return the paragraphs of a model's docstring, and what it and its bases say of each key."""
    texts: list[str] = []
    meanings: dict[str, str] = {}
    for one in reversed(form.__mro__):
        if not issubclass(one, Record) or one.__doc__ is None or "__doc__" not in vars(one):
            continue
        for section in Docstring(inspect.cleandoc(one.__doc__)).parse("google"):
            if isinstance(section, DocstringSectionAttributes):
                meanings |= {each.name: each.description for each in section.value}
            elif one is form and isinstance(section, DocstringSectionText):
                texts += [_paragraph(each) for each in section.value.split("\n\n")]
    return [line for text in texts for line in (text, "")], meanings


def _paragraph(text: str) -> str:
    return re.sub(r"`loupe\.([\w.]+)`", r"`\1`", " ".join(text.split()))


def _forms_in(annotation: Any) -> Iterator[type[Record]]:
    if inspect.isclass(annotation) and issubclass(annotation, Record):
        yield annotation
    for part in get_args(annotation):
        yield from _forms_in(part)


def _type(annotation: Any) -> str:
    """Return a type in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return ", ".join(f'`"{part}"`' for part in parts)
    if origin in {Union, UnionType}:
        named = dict.fromkeys(_type(part) for part in parts if part is not NoneType)
        return " or ".join(named)
    if origin in {tuple, list, frozenset}:
        return f"list of {_type(parts[0])}"
    if inspect.isclass(annotation) and issubclass(annotation, Record):
        return "table"
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return ", ".join(f'`"{one.value}"`' for one in annotation)
    return _PLAIN.get(annotation, "table" if origin else "text")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, Record) or value in ((), {}, ""):
        return ""
    if isinstance(value, tuple) and any(isinstance(one, Record) for one in value):
        return ""
    shown = value.value if isinstance(value, Enum) else value
    if isinstance(shown, bool):
        return str(shown).lower()
    if isinstance(shown, tuple | frozenset):
        return ", ".join(f"`{one}`" for one in shown)
    return f"`{shown}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
