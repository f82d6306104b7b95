"""Commands as functions whose docstrings describe their parameters."""

import inspect
import re
import sys
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_origin

import typer
from typer.models import OptionInfo, ParameterInfo

from loupe.flows.cli.output import with_answer
from loupe.schemas.errors import ServiceError

P = ParamSpec("P")
T = TypeVar("T")
INTERRUPTED = 130
"""Exit code after Ctrl+C."""
_INTEGERS = range(-(2**63), 2**63)
_DESCRIBED = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def group(help_: str) -> typer.Typer:
    """Return a group of commands, which prints its help if no command is given."""
    return typer.Typer(help=help_, no_args_is_help=True)


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that adds a function to `app`, as a command of its name.

    A command that returns an `Answer` has the option `--json`.
    """

    def add(function: Callable[P, T]) -> Callable[P, T]:
        run = _with_sentences(with_answer(function))
        app.command(name or _name_of(function.__name__), help=declare(run))(run)
        return function

    return add


def _with_sentences(function: Callable[P, T]) -> Callable[P, T]:
    """Return a command that ends in a sentence where Click would only print "Aborted!"."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except EOFError as error:
            raise ServiceError(
                "another process of this command was killed; finished work is stored, run again "
                "to continue"
            ) from error

    return run


def declare(function: Callable[..., object]) -> str:
    """Declare the parameters of a command for Typer, and return the help of the command.

    A positional parameter is an argument; a keyword-only one is an option of that name, without a
    final underscore. Only flags that are on by default have a `--no-NAME`. The help of a parameter
    is its text in the section `Args` of the docstring. An annotation of Typer states what else is
    to be declared: `Annotated[int, typer.Option(min=1)]`.
    """
    text, _, section = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
    helps = {name: " ".join(said.split()) for name, said in _DESCRIBED.findall(section)}
    signature = inspect.signature(function)
    parameters = [
        one.replace(annotation=_declared(one, helps.get(one.name)))
        for one in signature.parameters.values()
    ]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return text


def _declared(parameter: inspect.Parameter, help_: str | None) -> Any:
    """Return the annotation of a parameter with its declaration for Typer."""
    annotation, info = parameter.annotation, None
    if get_origin(annotation) is Annotated:
        annotation, info = get_args(annotation)
    if annotation is typer.Context:
        return annotation
    is_option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    usual: ParameterInfo = typer.Option() if is_option else typer.Argument()
    declared = copy(info) if info else usual
    declared.help = declared.help or help_
    if annotation in (int, int | None):
        declared.callback = _refuse_huge
    if isinstance(declared, OptionInfo) and declared.default is ...:  # no name is stated
        name = _name_of(parameter.name)
        declared.default = f"--{name}/--no-{name}" if parameter.default is True else f"--{name}"
    return Annotated[annotation, declared]


def _refuse_huge(number: int | None) -> int | None:
    """Refuse a number that a database cannot hold.

    Raises:
        typer.BadParameter: it has more than 64 bits.
    """
    if number is not None and number not in _INTEGERS:
        raise typer.BadParameter(f"{number} is too large; expected at most {_INTEGERS[-1]:,}")
    return number


def _name_of(identifier: str) -> str:
    return identifier.rstrip("_").replace("_", "-")
