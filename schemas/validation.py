"""Load TOML files, and say in plain sentences what is wrong with input."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from loupe.schemas.errors import ConfigurationError
from loupe.schemas.wording import shortened

_SHOWN_CHARACTERS = 80
_MESSAGE_CHARACTERS = 1000
_OURS = "Value error, "
_SUBJECT = re.compile(r"^[A-Z]\w* should (?=be|have|match)")
_QUOTE = "'"
_LATER = " after validation"
_TABLE = "must be a table of keys and values"
_TYPES = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
}
"""What values of these types are, in words, by the type of an error of pydantic."""
_PATTERNS = {
    r"\S": "must not be blank",
    r"^https?://": "must be an address that begins with https:// or http://",
    r"^https?://[^\s<>\"|`]+$": "must be a web address, such as https://example.org",
    r"^https://orcid\.org/(\d{4}-){3}\d{3}[\dX]$": (
        "must be an ORCID, such as https://orcid.org/0000-0002-1825-0097"
    ),
    r"^10\.\d{4,9}/\S+$": "must be a DOI, such as 10.5281/zenodo.1234567, no address",
    r"^[0-9]+\.[0-9]+$": "must be two numbers, such as 1.0",
    r"^(auto|cpu|cuda|cuda:\d+|mps)$": "must be auto, cpu, cuda, cuda:NUMBER or mps",
    r"^[A-Za-z_][A-Za-z0-9_]*$": (
        "must be the name of an environment variable, such as OPENAI_API_KEY"
    ),
    r"^[a-z]{2}$": "must be a language of two letters, such as zh",
    r"^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$": "must be three numbers, such as 1.0.0",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": (
        "must be up to 64 letters, digits, '.', '_' and '-', the first a letter or a digit"
    ),
    r"^(required|auto|sample:(0|1|0?\.[0-9]+|[01]\.0*)(:-?[0-9]+)?)$": (
        "must be 'required', 'auto', 'sample:RATE' or 'sample:RATE:SEED', with a rate from 0 to 1"
    ),
}
"""What texts of these patterns are, in words."""
ModelT = TypeVar("ModelT", bound=BaseModel)
_Form = type[BaseModel]
_NAME = re.compile(r"\w+")


def fault_of(
    error: Exception,
    form: type[BaseModel] | None = None,
    *,
    see: str = "",
    tables: Mapping[str, Any] | None = None,
) -> str:
    """Describe the first error: where it is, what is expected there, and what was found.

    Args:
        error: an error of pydantic, such as "statistics.images: must be a whole number, got
            'many'"; of other errors, the first line or the class is used.
        form: the expected record; for an unknown key, the most similar known key is named.
        see: the page that lists the known keys.
        tables: the values of a TOML file, whose arrays of tables are named as their author does.
    """
    if not isinstance(error, ValidationError):
        return next(iter(str(error).splitlines()), "") or type(error).__name__
    faults = error.errors(include_url=False)
    faults = _of_one_type(faults, form)
    # A misspelt key is unknown, and the right one is missing: the first says more.
    first = next((one for one in faults if _is_misspelt(one, form)), faults[0])
    found = _followed(form, first["loc"])
    table, steps = _table_at(found.steps, tables or {})
    return table + _sentence_of(first, steps, found.forms, see)


def _of_one_type(faults: list[ErrorDetails], form: _Form | None) -> list[ErrorDetails]:
    """Return the faults of the first one's place; of several types, those of the likeliest.

    That is the type with the fewest faults; of a table, no type that is none.
    """
    at = _followed(form, faults[0]["loc"]).tried
    if at is None:
        return faults
    of_types: dict[int | str, list[ErrorDetails]] = {}
    for one in faults:
        if len(one["loc"]) > at and one["loc"][:at] == faults[0]["loc"][:at]:
            of_types.setdefault(one["loc"][at], []).append(one)
    return min(of_types.values(), key=lambda many: (_is_other_type(many[0]), len(many)))


def _is_other_type(fault: ErrorDetails) -> bool:
    return fault["type"] == "literal_error" and isinstance(fault["input"], Mapping)


def _table_at(loc: Sequence[int | str], tables: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """Return how the table of an array that holds `loc` is called, and the place in it."""
    if len(loc) < 2 or not isinstance(loc[1], int):
        return "", loc
    array = tables.get(str(loc[0]))
    table = array[loc[1]] if isinstance(array, list) else None
    if not isinstance(table, Mapping):
        return "", loc
    name = table.get("name")
    called = f"{name!r:.80}" if isinstance(name, str) else f"number {loc[1] + 1}"
    return f"[[{loc[0]}]] {called}: ", loc[2:]


def _sentence_of(
    first: ErrorDetails, steps: Sequence[Any], forms: Sequence[_Form], see: str
) -> str:
    place = "".join(map(_printable, ".".join(map(str, steps))))
    message = rule_of(first)
    if not place:
        is_own = first["type"] == "value_error" or not message.startswith("must ")
        return message if is_own else f"it {message}"
    if first["type"] == "extra_forbidden":
        return _unknown_key(place, forms, see)
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_tag(place, first)
    if first["type"] == "missing":
        return f"{place} is missing"
    if first["type"].startswith("union_tag"):
        return _wrong_tag(place, first["ctx"])
    if first["type"] in ("tuple_type", "list_type") and isinstance(first["input"], dict):
        return f"{place}: must be a list of tables, got one: write [[{place}]] above each"
    if "; got " in message or (first["type"] == "value_error" and isinstance(first["input"], dict)):
        return f"{place}: {message}"
    found = shortened(repr(first["input"]), _SHOWN_CHARACTERS)
    return f"{place}: {message}, got {_LOGIN.sub('://***@', found)}{_nearest(first)}"


def _wrong_tag(place: str, about: Mapping[str, Any]) -> str:
    """Return what is wrong with the key that says which record it is, such as `provider`."""
    key = f"{place}.{about['discriminator'].strip(_QUOTE)}"
    if "tag" not in about:
        return f"{key} is missing"
    known, tag = about["expected_tags"], about["tag"]
    nearest = nearest_name(tag, re.findall(r"'(.*?)'", known))
    hint = f"; did you mean {nearest!r}?" if nearest else ""
    return f"{key}: must be one of {known}, got {tag!r:.{_SHOWN_CHARACTERS}}{hint}"


def rule_of(fault: ErrorDetails) -> str:
    """Return what a value must be, such as "must be a text", or the message of our own rule."""
    if fault["type"] == "string_pattern_mismatch" and fault["ctx"]["pattern"] in _PATTERNS:
        return _PATTERNS[fault["ctx"]["pattern"]]
    said = fault["msg"].removeprefix(_OURS)[:_MESSAGE_CHARACTERS]  # it may contain the value
    return _TYPES.get(fault["type"]) or _SUBJECT.sub("must ", said).replace(_LATER, "")


def _is_misspelt(fault: ErrorDetails, form: type[BaseModel] | None) -> bool:
    if fault["type"] != "extra_forbidden":
        return False
    key, forms = str(fault["loc"][-1]), _followed(form, fault["loc"]).forms
    return bool(
        _table_of(key, forms) or nearest_name(key, chain.from_iterable(map(_fields, forms)))
    )


def _nearest(fault: ErrorDetails) -> str:
    """Return the allowed value that was probably meant, if values are listed and one is similar."""
    if fault["type"] not in ("enum", "literal_error"):
        return ""
    allowed = re.findall(r"'(.*?)'", fault["ctx"]["expected"])
    nearest = difflib.get_close_matches(str(fault["input"]), allowed, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _unknown_tag(place: str, fault: ErrorDetails) -> str:
    """Return what is wrong with the key that tells which kind of table it is."""
    key = fault["ctx"]["discriminator"].strip("'")
    if fault["type"] == "union_tag_invalid":
        tag, known = fault["ctx"]["tag"], re.findall(r"'(.*?)'", fault["ctx"]["expected_tags"])
        return f"{place}.{key}: there is no {tag!r:.80}; {nearest_hint(tag, known)}"
    written = fault["input"] if isinstance(fault["input"], Mapping) else {}
    if misspelt := nearest_name(key, map(str, written)):
        return f"unknown key {f'{place}.{misspelt}'!r:.80}; did you mean {key!r}?"
    return f"{place}.{key} is missing"


def _unknown_key(place: str, forms: Sequence[_Form], see: str) -> str:
    """Return the message on a key that none of `forms` has."""
    key = place.rpartition(".")[2]
    known = sorted({name for one in forms for name in _fields(one)})
    table = _table_of(key, forms)
    if table and not nearest_name(key, known):
        return f"unknown key {place!r:.80}; it belongs in {table}"
    return unknown_key(place, known, see)


def _table_of(key: str, forms: Sequence[_Form]) -> str:
    """Return how to state a key in the table of one of `forms` that has it; empty if none has."""
    for one in forms:
        for name, annotation in _fields(one).items():
            if any(key in _fields(inner) for inner in _records(annotation)):
                is_list = get_origin(annotation) is tuple
                return f"[[{name}]]" if is_list else f"{name}: {name} = {{{key} = …}}"
    return ""


def unknown_key(place: str, known: list[str], see: str = "") -> str:
    """Return the message on an unknown key, with the most similar known key if there is one."""
    nearest = difflib.get_close_matches(place.rpartition(".")[2], known, n=1)
    if nearest:
        return f"unknown key {place!r:.80}; did you mean {nearest[0]!r}?"
    if see:
        return f"unknown key {place!r:.80}; see {see}"
    return f"unknown key {place!r:.80}" + (f"; known keys are {', '.join(known)}" if known else "")


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant; empty if none is near."""
    nearest = difflib.get_close_matches(name, sorted(known), n=1)
    return nearest[0] if nearest else ""


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, or all known names."""
    among = sorted(known)
    nearest = nearest_name(name, among)
    return f"did you mean {nearest}?" if nearest else f"known are {', '.join(among) or 'none'}"


class _Followed(NamedTuple):
    """A place in a file.

    Attributes:
        forms: the records that may have its last key.
        steps: the place as it is written in the file.
        tried: where the place of pydantic names a type, as it does where several are allowed.
    """

    forms: Sequence[_Form]
    steps: Sequence[int | str]
    tried: int | None


def _followed(form: _Form | None, loc: Sequence[int | str]) -> _Followed:
    forms: Sequence[_Form] = [] if form is None else [form]
    before, steps, at = forms, list[int | str](), None
    for number, part in enumerate(loc):
        fields = [_fields(one)[str(part)] for one in forms if str(part) in _fields(one)]
        name = _NAME.findall(str(part))[-1:]
        tried = [one for one in forms if part in _tags(one) or name == [one.__name__]]
        if not fields and (tried or "[" in str(part)):
            forms = before = tried or forms
            at = number if at is None else at
            continue
        steps.append(part)
        before = forms
        inner = [found for annotation in fields for found in _records(annotation)]
        forms = inner or forms  # positions do not lead to another record
    return _Followed(before, steps, at)


def _tags(form: _Form) -> Sequence[Any]:
    """Return what tells a record from the others that are allowed in its place."""
    field = form.model_fields.get("provider")
    return () if field is None else get_args(field.annotation)


def _fields(form: type[BaseModel]) -> dict[str, Any]:
    """Return the types of the fields of a record, by their names in files."""
    fields = form.model_fields.items()
    return {field.alias or name: field.annotation for name, field in fields}


def _records(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the record types in a type such as `tuple[Record, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _records(inner)


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def packaged_toml(package: str, file: str) -> dict[str, Any]:
    """Return the tables of a TOML file that ships in a package."""
    return tomllib.loads(files(package).joinpath(file).read_text("utf-8"))


_LOGIN = re.compile(r"://[^/@\s]*@")
_RUNS_CODE = re.compile(
    r"trust_remote_code|code_revision|auto_map|_target_|custom_(code|pipeline|pipelines|generate)"
    r"|logits_processors|inductor_passes|(kv|ec)_transfer_config|\w*_(cls|plugin|plugins|module_path)"
    r"|model_class_overrides|distributed_executor_backend"
)


def refuse_code(values: object, place: str = "") -> None:
    """Refuse settings of models that would run code which is not installed, at any depth.

    Raises:
        ValueError: there is one that is not false or empty; the message names it.
    """
    if isinstance(values, Mapping):
        for key, value in values.items():
            within = f"{place}.{key}" if place else str(key)
            if value and _RUNS_CODE.fullmatch(str(key).lower().replace("-", "_")):
                raise ValueError(f"{within} would run code that comes with a model; leave it out")
            refuse_code(value, within)
    elif isinstance(values, list | tuple):
        for number, value in enumerate(values):
            refuse_code(value, f"{place}.{number}")


def at_home(path: str | Path) -> Path:
    """Return the path with `~` expanded to a home folder.

    Raises:
        ConfigurationError: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{str(path)!r} begins with the home folder of an unknown user"
        ) from error


# Settings in files.


def placed(path: Path, info: ValidationInfo) -> Path:
    """Resolve a path relative to the folder of its file, if that is known, without `a/..`."""
    if not info.context:
        return path
    found: Path = info.context["folder"] / at_home(path)
    plain = Path(os.path.normpath(found))
    return plain if plain.resolve() == found.resolve() else found  # `a` may be a link


PlacedPath = Annotated[Path, AfterValidator(placed)]


def validated(
    form: type[ModelT],
    values: Mapping[str, Any],
    what: str,
    *,
    see: str = "",
    folder: Path | None = None,
) -> ModelT:
    """Return the record with these values; `folder` is that of relative paths.

    Raises:
        ConfigurationError: a key is unknown, missing or invalid; the message begins with `what`.
    """
    try:
        return form.model_validate(values, context={"folder": folder} if folder else None)
    except ValidationError as error:
        fault = fault_of(error, form, see=see, tables=values)
        raise ConfigurationError(f"{what}: {fault}") from error
