"""The terms of sources: what builds state of them, and early word of those that stop a release."""

from collections.abc import Iterable, Mapping

from flows.context import RunContext
from flows.release_facts import release_facts
from schemas.build import SourceSpec, VideoSourceSpec
from schemas.licence_expressions import licence_of, permits_release
from schemas.records import Source
from sources.licensed_images import LICENSED_IMAGES


def permissions(sources: Iterable[SourceSpec | VideoSourceSpec]) -> Mapping[str, str]:
    """By the name of a source why its terms permit a release, where its build says so."""
    return {one.name: one.permitted_by for one in sources if one.permitted_by}


def tell_of_terms(context: RunContext, source: Source, permitted_by: str | None) -> None:
    """Says that nothing of `source` can be released as it is, where that is so.

    Raises:
        ConfigurationError: what curators state (`releases.toml`) cannot be read.
    """
    if source.format == LICENSED_IMAGES.format or permits_release(source.licence):
        return
    stated = release_facts(context.settings.releases_file, source.name).permitted_terms
    is_permitted = permitted_by or stated.get(source.name, "").strip()
    if is_permitted and licence_of(source.licence) is None:
        return
    context.progress.say(f"warning: {_why_not(source)}")


def _why_not(source: Source) -> str:
    if licence_of(source.licence) is not None:
        return (
            f"{source.name} is under a licence that forbids a release ({source.licence!r}), which "
            f"no reason overrules: nothing of it is released"
        )
    return (
        f"{source.name} is under terms that are no licence we know ({source.licence!r}): nothing "
        f"of it is released before its licence is given (licence), or it is said why its terms "
        f"permit it (permitted_by)"
    )
