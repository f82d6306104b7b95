"""Shared by all HTML pages: escaped texts, and a strict Content-Security-Policy."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

_NOTHING = "default-src 'none'"
_NO_DETOURS = "base-uri 'none'; form-action 'none'"
_SINGLE_FILE = f"{_NOTHING}; style-src 'unsafe-inline'; img-src data:; {_NO_DETOURS}"
_WITH_FILES = (
    f"{_NOTHING}; script-src 'self' file:; style-src 'self' file:; img-src 'self' file: data:; "
    f"{_NO_DETOURS}"
)


def page_environment(package: str, *, with_files: bool = False) -> "Environment":
    """Return the templates of `package`, for pages with untrusted texts.

    Texts are escaped when they are inserted into a page; in Markdown (`.md.j2`) the template does
    it. If one nevertheless became part of the page, the Content-Security-Policy that each page
    declares first, as `{{ content_security_policy }}`, prevents it from running a script or loading
    anything. Pages are single files, except those `with_files`, which may load files beside them.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        autoescape=select_autoescape(disabled_extensions=("md.j2",), default=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["content_security_policy"] = _WITH_FILES if with_files else _SINGLE_FILE
    return environment
