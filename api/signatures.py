"""What the types of a step's function say: its input, its models, its parameters, its outputs."""

import inspect
import types
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import (
    Any,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from loupe.api.records import Record
from loupe.api.values import VALUES, Caption, Crop, Image, Rejection
from loupe.schemas.errors import UsageError
from loupe.schemas.proposals import Candidate, Strategy
from loupe.schemas.records import Rewrite
from loupe.schemas.validation import fault_of, nearest_hint

P = ParamSpec("P")
MadeT = TypeVar("MadeT")
_NONE = type(None)
_MADE_BY_STEPS = (Rewrite, Strategy, Candidate)
"""What only steps of Loupe make, and any step may take."""
_MADE = "loupe.Caption, a class of loupe.Record, or loupe.Crop for a new image"
_TAKEN = (
    "loupe.Image, loupe.Caption, loupe.Rewrite, loupe.Strategy, loupe.Candidate, "
    "loupe.SimilarPair or a class of loupe.Record"
)


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
            f"parameter is {_TAKEN}"
        )
    if what := _no_plain_function(function):
        raise UsageError(
            f"step {name!r} is {what}; a step is a plain function (def) that returns its results"
        )
    try:
        hints = get_type_hints(function)
    except Exception as error:
        raise UsageError(
            f"the types of step {name!r} cannot be read: {type(error).__name__}: {error}"
        ) from error
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise UsageError(f"step {name!r} takes nothing; its first parameter must be {_TAKEN}")
    for one in parameters:
        if one.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise UsageError(
                f"step {name!r}: *{one.name} takes any number of values; name each parameter, as "
                f"they are part of what determines results"
            )
    first, *rest = parameters
    if first.name == "self" and first.name not in hints:
        raise UsageError(
            f"step {name!r} is a method; define it outside the class, so that its first parameter "
            f"is {_TAKEN}"
        )
    if first.name not in hints:
        raise UsageError(
            f"step {name!r}: parameter {first.name!r} has no type; write {first.name}: loupe.Image "
            f"(or another of {_TAKEN})"
        )
    takes, takes_list = _input_of(name, first.name, hints[first.name])
    if "return" not in hints:
        raise UsageError(
            f"step {name!r} has no return type; write -> bool for a filter, or the type of what it "
            f"makes: {_MADE}, or a list of them"
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


def _no_plain_function(function: object) -> str:
    """Return what it is instead of a plain function; empty if it is one."""
    if isinstance(function, type):
        return "a class"
    if inspect.isgeneratorfunction(function):
        return "a generator (yield, where it must return a list)"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "async"
    return "" if inspect.isroutine(function) else f"of the type {type(function).__name__}"


def _input_of(step: str, parameter: str, hint: Any) -> tuple[type, bool]:
    is_list = get_origin(hint) is list
    inner = get_args(hint)[0] if is_list else hint
    if inner not in (Image, Caption, *_MADE_BY_STEPS) and not _is_own(inner):
        raise UsageError(
            f"step {step!r}: parameter {parameter!r} is of the type {_named(hint)}; expected "
            f"{_TAKEN}, or a list of them"
        )
    return inner, is_list


def _outputs_of(step: str, hint: Any, takes: type) -> tuple[tuple[type, ...], bool]:
    """Return the types of the outputs, none for a filter, and whether they come in a list."""
    members = [one for one in _members(hint) if one not in (_NONE, Rejection)]
    if len(members) == 1 and get_origin(members[0]) is list:
        inner = tuple(one for one in _members(get_args(members[0])[0]) if one is not Rejection)
        if inner == (bool,) or (inner and all(map(_is_made, inner))):
            return ((), True) if inner == (bool,) else (inner, True)
    elif members in ([bool], [takes]):
        return (), False
    elif members and all(map(_is_made, members)):
        return tuple(members), False
    raise UsageError(
        f"step {step!r} returns the type {_named(hint)}; expected bool for a filter, or {_MADE}, "
        f"or a list of them, each with | loupe.Rejection if it may refuse"
    )


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_made(hint: Any) -> bool:
    return hint in (Caption, Crop) or _is_own(hint)


def _is_own(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Record) and hint is not Record


def _named(hint: Any) -> str:
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("loupe.api.values.", "loupe.")


def kind_of(form: type) -> str:
    """Return the kind of entity that values of a type are stored as."""
    return VALUES.get(form) or str(form.kind)  # type: ignore[attr-defined]


def checking_names(function: Callable[P, MadeT]) -> Callable[P, MadeT]:
    """Return a function that says in one sentence which arguments it lacks or does not have.

    It raises a `UsageError` for what Python has a `TypeError` for, with the nearest name.
    """
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> MadeT:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            known = [one.name for one in signature.parameters.values() if one.kind in _NAMED]
            known = [one for one in known if one != "self"]
            if unknown := sorted(kwargs.keys() - set(known)):
                hint = nearest_hint(unknown[0], known)
                raise UsageError(f"{name} has no parameter {unknown[0]!r}; {hint}") from error
            raise UsageError(f"{name}: {error}") from error
        return function(*args, **kwargs)

    return checked


def checking_arguments(make: Callable[P, MadeT]) -> Callable[P, MadeT]:
    """Return a function that makes a part, and says in one sentence what it cannot be called with.

    Besides `checking_names`, it does so for values of a wrong type.
    """
    name, named = make.__name__, checking_names(make)

    @wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> MadeT:
        try:
            return named(*args, **kwargs)
        except (TypeError, AttributeError, ValueError) as error:
            values = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
            raise UsageError(
                f"{name}: a value is of a wrong type ({fault_of(error)}); got {', '.join(values)}"
            ) from error

    def using(**_: object) -> None:
        raise UsageError(f"{name} has no using(…); pass its values directly: {name}(…)")

    checked.__dict__["using"] = using  # as steps that are functions have
    return checked


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
