"""What an association remembers of those it follows: a table with a row for each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.tracking.kalman import ROWS

Tracks = NDArray[np.void]
"""A table of `track_type`: first the tracked ones, then the lost ones, each in FairMOT's order."""

ALONE = -1
"""In place of a detection's row: there is none."""


def track_type(embedding_length: int) -> np.dtype[np.void]:
    """The columns of a table of tracks.

    number: counts from 1.
    started, seen: the frames of the first and of the last detection, from 1.
    detection: the row of the sighting it took in the last frame, or `ALONE`.
    score: of the last detection, but not of one that brought the track back.
    confirmed: seen a second time in the very next frame, or begun in the first frame.
    lost: not found in the last frame.
    expired: was once lost for longer than remembered. A lost one is forgotten after one more frame;
        one that came back in that frame is forgotten as soon as it is lost again.
    motion: see `models.tracking.kalman`.
    look: the embedding, smoothed over time; of length 0 where nothing is known of appearance.
    """
    columns: list[tuple[Any, ...]] = [
        ("number", np.int64),
        ("started", np.int64),
        ("seen", np.int64),
        ("detection", np.intp),
        ("score", np.float64),
        ("motion", np.float64, (ROWS, 4)),
        ("look", np.float32, (embedding_length,)),
        ("confirmed", np.bool_),
        ("lost", np.bool_),
        ("expired", np.bool_),
    ]
    return np.dtype(columns, align=True)


def joined(*tables: Tracks) -> Tracks:
    """The rows of all tables of one type, in order.

    They are copied as bytes: NumPy would go field by field, ten times as slow.
    """
    kind = tables[0].dtype
    as_bytes = np.dtype((np.void, kind.itemsize))
    return np.concatenate([table.view(as_bytes) for table in tables]).view(kind)


def boxes_xyxy(tracks: Tracks) -> NDArray[np.float64]:
    """Where the tracks are: (n, 4), left, top, right, bottom."""
    x, y, aspect, height = tracks["motion"][:, 0].T
    half_width, half_height = aspect * height / 2, height / 2
    corners = (x - half_width, y - half_height, x + half_width, y + half_height)
    return np.stack(corners, axis=1)
