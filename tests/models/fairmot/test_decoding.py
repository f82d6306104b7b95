from collections.abc import Sequence

import numpy as np
import torch

from loupe.models.fairmot.network import Candidates, HeadMaps, decode, select_people
from tests.models.fairmot.reference import arrays


def random_maps(seed: int, height: int = 6, width: int = 9, extents: int = 4) -> HeadMaps:
    draw = torch.Generator().manual_seed(seed)
    return HeadMaps(*(torch.randn(1, n, height, width, generator=draw) for n in (1, extents, 5, 2)))


def candidates_of(boxes: Sequence[Sequence[float]], scores: list[float]) -> Candidates:
    count = len(scores)
    return Candidates(
        torch.arange(count),
        torch.tensor(boxes, dtype=torch.float32),
        torch.tensor(scores),
        torch.eye(count),
    )


def test_decoding_equals_the_recorded_reference() -> None:
    golden = arrays("fairmot_dla34_golden.npz")
    maps = HeadMaps(*(torch.from_numpy(golden[name]) for name in ("hm", "wh", "id", "reg")))
    found = decode(maps, most=20)
    decoded = golden["decode_dets"][0]
    np.testing.assert_array_equal(found.cells, golden["decode_inds"][0])
    np.testing.assert_allclose(found.boxes_xyxy, decoded[:, :4], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.scores, decoded[:, 4], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.embeddings, golden["decode_id"], rtol=0, atol=1e-6)


def test_two_extents_are_width_and_height() -> None:
    maps = random_maps(1, extents=2)
    boxes = decode(maps, most=10).boxes_xyxy
    cells = decode(maps, most=10).cells
    extents = maps.extents[0].flatten(1)[:, cells].T
    torch.testing.assert_close(boxes[:, 2:] - boxes[:, :2], extents)
    centres = torch.stack([cells % 9, cells // 9], dim=1) + maps.offsets[0].flatten(1)[:, cells].T
    torch.testing.assert_close((boxes[:, 2:] + boxes[:, :2]) / 2, centres)


def test_equal_scores_come_in_reading_order() -> None:
    maps = random_maps(0)._replace(centres=torch.zeros(1, 1, 6, 9))
    assert decode(maps, most=7).cells.tolist() == list(range(7))


def test_a_score_must_be_above_the_threshold() -> None:
    people = candidates_of([[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]], [0.75, 0.5, 0.25])
    assert select_people(people, 0.5, 1).scores.tolist() == [0.75]
    assert select_people(people, 0.25, 1).scores.tolist() == [0.75, 0.5]


def test_the_best_of_overlapping_boxes_is_kept() -> None:
    boxes: list[list[float]] = [[0, 0, 2, 4], [0, 0, 2, 4.2], [0, 2, 2, 6], [8, 0, 10, 4]]
    people = candidates_of(boxes, [0.9, 0.8, 0.7, 0.6])
    assert select_people(people, 0.3, 0.4).cells.tolist() == [0, 2, 3]
    assert select_people(people, 0.3, 0.2).cells.tolist() == [0, 3]
    assert select_people(people, 0.3, 1).cells.tolist() == [0, 1, 2, 3]


def test_boxes_without_an_extent_are_dropped() -> None:
    nan = float("nan")
    boxes: list[list[float]] = [[2, 0, 1, 4], [0, 4, 2, 4], [0, 0, nan, 4], [0, 0, 2, 4]]
    people = candidates_of(boxes, [0.9, 0.8, 0.7, 0.6])
    assert select_people(people, 0.3, 1).cells.tolist() == [3]
