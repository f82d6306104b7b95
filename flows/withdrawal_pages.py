"""Pages that runs write below the home, with pictures and texts in them: gone with what they show.

A page is called after its dataset, and no page is looked into: whichever of a dataset lie there go,
and whoever runs the build, `loupe evaluate` or `loupe leaderboard` again, which go on without what
is withdrawn, gets them anew.
"""

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

PAGES = ("reports", "leaderboards")
"""The folders below the home that hold pages and nothing else. Other folders hold no pages:
releases and notices are marked, files of the blob store are erased by their digests, `rendered` and
`demonstration` hold what was drawn here and is imported as a source, `trainings` hold models."""


def erase_pages(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Removes all pages of these datasets; gives where those lay below the home that were there.

    `known` are the other datasets that there are: a page of `people-two` is none of `people`.
    """
    removed = pages_of(home, datasets, known)
    for page in removed:
        _remove(home / page)
    return removed


def pages_of(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Where below the home the pages of these datasets lie; see `erase_pages`."""
    wanted = set(datasets)
    names = wanted.union(known)
    return [
        f"{folder}/{path.name}"
        for folder in PAGES
        for path in sorted((home / folder).glob("*"))
        if _dataset_of(path.name, names) in wanted
    ]


def _dataset_of(page: str, names: Collection[str]) -> str | None:
    """The dataset with the longest name that a page may be called after."""
    whole = page.lstrip(".")  # one that was being written when its run was killed
    fitting = (name for name in names if whole.startswith((f"{name}-", f"{name}.")))
    return max(fitting, key=len, default=None)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
