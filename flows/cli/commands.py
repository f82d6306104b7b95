"""Commands as functions whose docstrings describe their parameters."""

import inspect
import re
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

P = ParamSpec("P")
T = TypeVar("T")
_DESCRIBED = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def group(help_: str) -> typer.Typer:
    """Return a group of commands, which prints its help if no command is given."""
    return typer.Typer(help=help_, no_args_is_help=True)


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that adds a function to `app` as a command; see `documented`."""

    def add(function: Callable[P, T]) -> Callable[P, T]:
        app.command(name)(documented(function))
        return function

    return add


def documented(function: Callable[P, T]) -> Callable[P, T]:
    """Declare the parameters of a command for Typer, with their help from its docstring.

    A positional parameter is an argument; a keyword-only one is an option of that name, without a
    final underscore. Only flags that are on by default have a `--no-NAME`. The help of a parameter
    is its text in the section `Args`. An annotation of Typer states what else is to be declared:
    `Annotated[int, typer.Option(min=1)]`.
    """
    text, _, section = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
    helps = {name: " ".join(said.split()) for name, said in _DESCRIBED.findall(section)}
    signature = inspect.signature(function)
    parameters = [
        one.replace(annotation=_declared(one, helps.get(one.name)))
        for one in signature.parameters.values()
    ]

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__doc__ = text
    return run


def _declared(parameter: inspect.Parameter, help_: str | None) -> Any:
    """Return the annotation of a parameter with its declaration for Typer."""
    annotation, info = parameter.annotation, None
    if get_origin(annotation) is Annotated:
        annotation, info = get_args(annotation)
    if annotation is typer.Context:
        return annotation
    declared: ParameterInfo = copy(info) if info else _usual(parameter)
    declared.help = declared.help or help_
    if isinstance(declared, OptionInfo) and declared.default is ...:  # no name is stated
        name = parameter.name.rstrip("_").replace("_", "-")
        declared.default = f"--{name}/--no-{name}" if parameter.default is True else f"--{name}"
    return Annotated[annotation, declared]


def _usual(parameter: inspect.Parameter) -> ParameterInfo:
    info: OptionInfo | ArgumentInfo
    is_option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    info = typer.Option() if is_option else typer.Argument()
    return info
