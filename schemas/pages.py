"""What every HTML page has that we write: escaped texts, and a policy that nothing gets around."""

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
    """The templates of `package`, of pages whose texts anybody may have written.

    What is put into a page is escaped. Should a text become part of the page all the same, the
    Content-Security-Policy that each page states first, as `{{ content_security_policy }}`, lets it
    run no script and load nothing: pages are single files, but for those `with_files`, which may
    load what lies beside them.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["content_security_policy"] = _WITH_FILES if with_files else _SINGLE_FILE
    return environment
