"""Which process holds the write lock of a SQLite database, as far as Linux tells."""

from pathlib import Path

from loupe.schemas.processes import is_stopped

_LOCKS = Path("/proc/locks")
_WRITE_LOCK = 120  # the byte of the `-shm` file that a writer in WAL mode has locked


def writer_of(file: str, locks: Path = _LOCKS) -> str:
    """Return the process that writes to the database in `file`, in words."""
    pid = _holder(Path(f"{file}-shm"), locks)
    if pid is None:
        return "another process that is writing to it"
    return f"process {pid}" + (f" (stopped; kill -CONT {pid} continues it)" * is_stopped(pid))


def _holder(shared: Path, locks: Path) -> int | None:
    try:
        inode = shared.stat().st_ino
        listed = locks.read_text("ascii").splitlines()
    except OSError:
        return None
    for line in listed:  # 14: POSIX  ADVISORY  WRITE 17292 fe:00:2703662 120 120
        fields = line.split()
        if len(fields) != 8 or fields[3] != "WRITE":
            continue
        pid, place, first, last = fields[4:]
        is_ours = place.rpartition(":")[2] == str(inode)
        if is_ours and first.isdigit() and int(first) <= _WRITE_LOCK <= _end_of(last):
            return int(pid) if int(pid) > 0 else None  # of another PID namespace
    return None


def _end_of(last: str) -> float:
    return float("inf") if last == "EOF" else int(last)
