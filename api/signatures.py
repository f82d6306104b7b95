"""What the types of a step's function say: its input, its models, its parameters, its outputs."""

import inspect
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from loupe.api.records import Record
from loupe.api.values import VALUES, Caption, Crop, Image, Rejection
from loupe.schemas.errors import UsageError

_NONE = type(None)
_KNOWN = "loupe.Image, loupe.Caption or a class of loupe.Record"


class Signature(NamedTuple):
    """The signature of a step.

    Attributes:
        takes: the type of the input.
        takes_list: whether the function gets a list of them.
        gives: the types of the outputs; empty for a filter.
        gives_list: whether the function returns a list.
        gives_none: whether it may return None, as in `Image | None`.
        models: the parameters that are filled from the profile, with their types.
        parameters: the other parameters, with their defaults.
    """

    takes: type
    takes_list: bool
    gives: tuple[type, ...]
    gives_list: bool
    gives_none: bool
    models: Mapping[str, type]
    parameters: Mapping[str, Any]

    @property
    def is_filter(self) -> bool:
        """Whether the step keeps or drops its inputs."""
        return not self.gives


def signature_of(function: Callable[..., Any], known_models: Collection[type]) -> Signature:
    """Return what the types of a function say; `known_models` are filled from the profile.

    Raises:
        UsageError: types are missing or unknown; the message says which, and what is expected.
    """
    name = getattr(function, "__name__", "the step")
    if name == "<lambda>":
        raise UsageError(
            f"a lambda cannot be a step, as it has no types; write a function (def) whose first "
            f"parameter is {_KNOWN}"
        )
    if isinstance(function, type) or inspect.iscoroutinefunction(function):
        what = "a class" if isinstance(function, type) else "async"
        raise UsageError(f"step {name!r} is {what}; a step is a plain function (def)")
    try:
        hints = get_type_hints(function)
    except Exception as error:
        raise UsageError(
            f"the types of step {name!r} cannot be read: {type(error).__name__}: {error}"
        ) from error
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise UsageError(f"step {name!r} takes nothing; its first parameter must be {_KNOWN}")
    first, *rest = parameters
    if first.name not in hints:
        raise UsageError(
            f"step {name!r}: parameter {first.name!r} has no type; write {first.name}: loupe.Image "
            f"(or another of {_KNOWN})"
        )
    takes, takes_list = _input_of(name, first.name, hints[first.name])
    if "return" not in hints:
        raise UsageError(
            f"step {name!r} has no return type; write -> bool for a filter, or the type of what it "
            f"makes: {_KNOWN}, or a list of them"
        )
    gives, gives_list = _outputs_of(name, hints["return"], takes)
    models, plain = {}, {}
    for one in rest:
        hint = hints.get(one.name)
        if isinstance(hint, type) and hint in known_models:
            models[one.name] = hint
        elif one.default is inspect.Parameter.empty:
            known = ", ".join(f"loupe.{model.__name__}" for model in known_models)
            raise UsageError(
                f"step {name!r}: parameter {one.name!r} must have a default, or be a model of the "
                f"profile ({known})"
            )
        else:
            plain[one.name] = one.default
    gives_none = _NONE in _members(hints["return"])
    return Signature(takes, takes_list, gives, gives_list, gives_none, models, plain)


def _input_of(step: str, parameter: str, hint: Any) -> tuple[type, bool]:
    is_list = get_origin(hint) is list
    inner = get_args(hint)[0] if is_list else hint
    if not _is_value(inner) or inner is Crop:
        raise UsageError(
            f"step {step!r}: parameter {parameter!r} is of the type {_named(hint)}; expected "
            f"{_KNOWN}, or a list of them"
        )
    return inner, is_list


def _outputs_of(step: str, hint: Any, takes: type) -> tuple[tuple[type, ...], bool]:
    """Return the types of the outputs, none for a filter, and whether they come in a list."""
    members = [one for one in _members(hint) if one not in (_NONE, Rejection)]
    if len(members) == 1 and get_origin(members[0]) is list:
        inner = tuple(one for one in _members(get_args(members[0])[0]) if one is not Rejection)
        if inner and all(one is bool or _is_value(one) for one in inner):
            return ((), True) if inner == (bool,) else (inner, True)
    elif members in ([bool], [takes]):
        return (), False
    elif members and all(map(_is_value, members)):
        return tuple(members), False
    raise UsageError(
        f"step {step!r} returns the type {_named(hint)}; expected bool for a filter, or {_KNOWN}, "
        f"or a list of them, each with | loupe.Rejection if it may refuse"
    )


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_value(hint: Any) -> bool:
    is_own = isinstance(hint, type) and issubclass(hint, Record) and hint is not Record
    return is_own or hint in (Image, Caption, Crop)


def _named(hint: Any) -> str:
    return getattr(hint, "__name__", None) if isinstance(hint, type) else str(hint)  # type: ignore[return-value]


def kind_of(form: type) -> str:
    """Return the kind of entity that values of a type are stored as."""
    return VALUES.get(form) or str(form.kind)  # type: ignore[attr-defined]
