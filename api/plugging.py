"""What plugins build on: formats and labelling pages."""

import inspect

from loupe.annotate.interfaces.own_pages import OwnPage as Page
from loupe.api.references import code_digest
from loupe.schemas.base import digest_of
from loupe.sources.annotations import Importer as Format

__all__ = ["Format", "Page"]


def format_digest(form: type[Format]) -> str:
    """Return a digest of the code of a format: of all functions of its class."""
    digests = []
    for name, one in sorted(vars(form).items()):
        if inspect.isfunction(one):
            digests += [name, code_digest(one)]
    return digest_of(*digests)
