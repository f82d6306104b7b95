"""The commands of `loupe`, one file per group.

Importing it makes this process, and those that it starts, independent of the working folder, which
may hold other people's files: a `json.py` beside a downloaded release must not run.
"""

# A module of the working folder may be called pathlib.
# ruff: noqa: PTH100, PTH117, PTH120
import os
import sys

_LISTS_OF_FOLDERS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _leave_working_folder() -> None:
    """Import nothing, and start no program, from the working folder.

    It is named by empty and relative entries of lists of folders, and by the first entry of
    `sys.path` after `python -m`. Numba would also take settings from a file there, such as the
    folder of its compiled code.
    """
    listed = os.environ.get("PYTHONPATH")
    foreign = {os.path.abspath(one) for one in (listed or "/").split(":") if not os.path.isabs(one)}
    if sys.argv[0] == "-m" and not sys.flags.safe_path:
        foreign.add(sys.path[0])
    foreign.discard(_ROOT)
    sys.path[:] = [one for one in sys.path if os.path.isabs(one) and one not in foreign]
    for name in _LISTS_OF_FOLDERS:
        kept = [one for one in os.environ.get(name, "").split(":") if os.path.isabs(one)]
        os.environ.pop(name, None)
        if kept:
            os.environ[name] = ":".join(kept)
    os.environ["PYTHONSAFEPATH"] = "1"
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES", "NUMBA_CUDA_DRIVER"):
        os.environ.setdefault(name, "")


_leave_working_folder()
