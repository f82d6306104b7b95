from pathlib import Path

import pytest

from loupe.release.export import export_release
from loupe.release.export.formats import FORMATS
from tests.release.export.kinds import KINDS, released

Releases = dict[str, Path]


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """A release of every kind, read-only."""
    return {kind: released(kind, tmp_path_factory.mktemp(kind)).folder for kind in KINDS}


@pytest.fixture(scope="session")
def exports(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """Exports of every release in every format, by `kind/format`, read-only."""
    home = tmp_path_factory.mktemp("exports")
    return {
        f"{kind}/{name}": export_release(folder, format_, home / kind / name).folder
        for kind, folder in releases.items()
        for name, format_ in FORMATS.items()
    }
