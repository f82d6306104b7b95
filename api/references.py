"""References to functions in files, which other processes follow: a script needs no package."""

import __future__

import ast
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from loupe.schemas.base import digest_of
from loupe.schemas.errors import LoupeError, UsageError

_FAULTS = "__loupe_faults__"
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class Reference(NamedTuple):
    """A function of a file or an installed module, by its name there."""

    file: str
    name: str

    def resolve(self) -> Any:
        """Import the file, once a process, and return what is called so in it."""
        found: Any = module_in(self.file)
        if (fault := faults_of(found).get(self.name)) is not None:
            raise fault
        for part in self.name.split("."):
            found = getattr(found, part)
        return found


def reference_to(function: Callable[..., Any], step: str) -> Reference:
    """Return the reference to the function of a step.

    Raises:
        UsageError: other processes cannot find it.
    """
    file = getattr(inspect.getmodule(function), "__file__", None)
    name = function.__qualname__
    if file is None or "<" in name:
        where = "in a notebook or a shell" if file is None else "inside another function"
        raise UsageError(
            f"step {step!r} cannot be sent to other processes, because it is defined {where}: "
            f'define it at the top of a file, or use parallel="thread"'
        )
    return Reference(str(Path(file).resolve()), name)


@cache
def module_in(file: str) -> ModuleType:
    """Return the module in a Python file, imported under a name of its own.

    Modules beside the file can be imported by it, as when it is run as a script.
    """
    path = Path(file)
    main = sys.modules.get("__main__")
    if main is not None and getattr(main, "__file__", None) == file:
        return main
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            return module
    name = f"_loupe_{path.stem}_{digest_of(file)[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    try:
        _execute(path, module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def faults_of(module: ModuleType) -> dict[str, LoupeError]:
    """Return what is wrong with the names of a module that could not be declared."""
    faults: dict[str, LoupeError] = module.__dict__.setdefault(_FAULTS, {})
    return faults


def _execute(path: Path, module: ModuleType) -> None:
    """Execute a file in its module; a name that Loupe refuses to declare stays without value.

    So a pipeline, step or source that cannot be used does not hide the others of the file.
    """
    faults = faults_of(module)
    flags = 0
    for statement in ast.parse(path.read_bytes(), str(path)).body:
        code = compile(
            ast.Module([statement], []), str(path), "exec", flags=flags, dont_inherit=True
        )
        flags |= code.co_flags & _FUTURE
        names = _assigned(statement)
        try:
            exec(code, module.__dict__)  # noqa: S102 - the user's file
        except LoupeError as error:
            if not names:
                raise
            fault = error
        except NameError as error:
            if error.name not in faults or not names:
                raise
            fault = faults[error.name]
        else:
            continue
        for name in names:
            faults[name] = fault
            module.__dict__.pop(name, None)  # an earlier value is not what the file means


def _assigned(statement: ast.stmt) -> list[str]:
    """Return the names that a statement assigns or defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        stored = [one for one in ast.walk(statement) if isinstance(one, ast.Name)]
        return [one.id for one in stored if isinstance(one.ctx, ast.Store)]
    return []


def code_digest(function: Callable[..., Any]) -> str:
    """Return a digest of the code of a function; comments, docstring and decorators do not count.

    Where the source is not known, as in a shell, it is that of the compiled code.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        code = function.__code__
        return digest_of(code.co_code.hex(), repr(code.co_names), repr(code.co_consts))
    (definition,) = tree.body
    if isinstance(definition, ast.FunctionDef):
        definition.decorator_list = []
        if ast.get_docstring(definition) is not None:
            definition.body = definition.body[1:] or [ast.Pass()]
    return digest_of(ast.unparse(definition))
