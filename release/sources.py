"""Which sources of a release are works to cite, and which brought images of many creators."""

from schemas.release import Manifest, ReleasedSource


def cited_sources(manifest: Manifest) -> list[ReleasedSource]:
    """The sources that have a citation, each citation once.

    A search has none: the creators of its images are in `ATTRIBUTION.md`.
    """
    cited = [one for one in manifest.sources if one.citation.strip()]
    return list({(one.name, one.citation): one for one in cited}.values())


def uncited_names(manifest: Manifest) -> list[str]:
    """The names of the other sources, by name."""
    cited = {one.name for one in cited_sources(manifest)}
    return sorted({one.name for one in manifest.sources} - cited)


def origin_names(manifest: Manifest) -> list[str]:
    """The sources that a release began with: those with a citation, or all where none has one."""
    cited = list(dict.fromkeys(one.name for one in cited_sources(manifest)))
    return cited or list(dict.fromkeys(one.name for one in manifest.sources))
