import json

import numpy as np
import pytest

from loupe.models.fairmot.detector import (
    Size,
    boxes_in_frame,
    letterbox,
    network_input,
    place,
)
from tests.models.fairmot.reference import FOLDER, arrays

ROWS = json.loads((FOLDER / "preprocess_letterbox.json").read_text())["rows"]
SAMPLED_ROWS = [0, 20, 47, 48, 80, 95]
SAMPLED_COLUMNS = [0, 1, 5, 8, 80, 100, 155, 159]
NETWORK = Size(160, 96)


def sizes_of(row: dict[str, list[int]]) -> tuple[Size, Size]:
    frame, network = (Size(*reversed(row[name])) for name in ("image_hw", "net_hw"))
    return frame, network


def test_placement_and_back_mapping_equal_the_reference(subtests: pytest.Subtests) -> None:
    for row in ROWS:
        with subtests.test(row=row):
            frame, network = sizes_of(row)
            borders = {name: row[name] for name in ("left", "top", "right", "bottom")}
            assert place(frame, network)._asdict() == {"size": tuple(row["resized_wh"]), **borders}
            cells = Size(network.width // 4, network.height // 4)
            corners = np.array([[0, 0, cells.width, cells.height], [3.5, -2, 17.25, 30]])
            affine = np.array(row["feat_to_image_affine"])
            points = np.c_[corners.reshape(-1, 2), np.ones(4)] @ affine.T
            found = boxes_in_frame(corners, cells, frame)
            np.testing.assert_allclose(found, points.reshape(-1, 4), rtol=1e-5, atol=1e-4)


def test_letterboxed_images_equal_the_reference_exactly(subtests: pytest.Subtests) -> None:
    for name in ["down", "up", "odd"]:
        with subtests.test(name=name):
            golden = arrays("preprocess_letterbox.npz")
            pixels = golden[f"{name}_image_bgr"][:, :, ::-1]  # a view with reversed channels
            boxed = letterbox(pixels, NETWORK)
            np.testing.assert_array_equal(boxed, golden[f"{name}_letterbox_bgr"][:, :, ::-1])
            sampled = network_input(boxed)[0][:, SAMPLED_ROWS][:, :, SAMPLED_COLUMNS]
            np.testing.assert_array_equal(sampled, golden[f"{name}_tensor_rgb_at"])


def test_extreme_frame_shapes_are_letterboxed(subtests: pytest.Subtests) -> None:
    for shape in [(1, 1, 3), (1, 3000, 3), (3000, 2, 3)]:
        with subtests.test(shape=shape):
            boxed = letterbox(np.full(shape, 7, np.uint8), NETWORK)
            assert boxed.shape == (96, 160, 3)
            assert set(np.unique(boxed)) <= {7, 128}
            assert (boxed == 7).any()
