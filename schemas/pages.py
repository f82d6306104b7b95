"""Shared by all templates: they are compiled once, and HTML pages escape texts.

HTML pages have a strict Content-Security-Policy.
"""

import sys
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_NOTHING = "default-src 'none'"
_NO_DETOURS = "base-uri 'none'; form-action 'none'"
_SINGLE_FILE = f"{_NOTHING}; style-src 'unsafe-inline'; img-src data:; {_NO_DETOURS}"
_WITH_FILES = f"{_NOTHING}; style-src 'self' file:; img-src 'self' file: data:; {_NO_DETOURS}"

SERVED_POLICY = (
    f"{_NOTHING}; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    f"img-src http: https: data:; {_NO_DETOURS}"
)
"""The policy of a page with a script of its server, which restricts images to one host."""


def page_environment(package: str, *, with_files: bool = False) -> "Environment":
    """Return the templates of `package`, for pages with untrusted texts.

    Texts are escaped when they are inserted into a page; in Markdown (`.md.j2`) the template does
    it. If one nevertheless became part of the page, the Content-Security-Policy that each page
    declares first, as `{{ content_security_policy }}`, prevents it from running a script or loading
    anything. Pages are single files, except those `with_files`, which may load files beside them.
    """
    from jinja2 import select_autoescape

    escaped = select_autoescape(disabled_extensions=("md.j2",), default=True)
    environment = template_environment(package, autoescape=escaped)
    environment.globals["content_security_policy"] = _WITH_FILES if with_files else _SINGLE_FILE
    return environment


def template_environment(package: str, **options: Any) -> "Environment":
    """Return the templates of `package`, kept compiled beside them, as Python keeps modules.

    Compiling the card of a release takes half a second. Another version of Jinja, or an environment
    with other options, compiles them again. What cannot be written is not kept.
    """
    import jinja2
    from jinja2.bccache import Bucket

    class Beside(jinja2.FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            if sys.dont_write_bytecode:
                return
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)

    undefined = jinja2.StrictUndefined
    options = {"undefined": undefined, "trim_blocks": True, "lstrip_blocks": True, **options}
    names = (f"{name}={getattr(one, '__qualname__', one)}" for name, one in options.items())
    digest = sha256(" ".join((jinja2.__version__, *names)).encode()).hexdigest()[:12]
    folder = Path(str(files(package)), "templates", "__pycache__")
    return jinja2.Environment(  # noqa: S701 - the options say it
        loader=jinja2.PackageLoader(package),
        bytecode_cache=Beside(str(folder), f"%s.{digest}"),
        **options,
    )
