"""The card of a contrastive release: similarity of samples, and results of choice tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from loupe.annotate.queues import shipped
from loupe.db.store import Store
from loupe.flows.ccd.choice_test import draw_and_store, released_samples, similarities
from loupe.flows.engine.embedding import CachedEmbedder, ReadableImage
from loupe.flows.engine.releasing import choice_statistics, measured_nearest
from loupe.models.embedding import Vectors
from loupe.release.contamination import WrittenSample
from loupe.release.format.rows import ReleasedContrast
from loupe.release.verify import verify_release
from loupe.schemas.chat import ModelRef
from loupe.schemas.taxonomy import DifferenceType
from tests.db.review_samples import Desk
from tests.flows.command_line import Loupe
from tests.release.ccd_world import CCD, benchmark
from tests.release.worlds import store_world

OF_ANCHOR = ReleasedContrast("images/1.jpg", DifferenceType.STYLE, "", "", "edit", "")


@pytest.fixture
def stored(home: Path) -> Store:
    """An installation with a contrastive benchmark of 27 images."""
    url = f"sqlite:///{home / 'loupe.db'}"
    return store_world(home, benchmark(9, 2).world.contents(), url=url).store


def draw(store: Store, size: int) -> list[str]:
    samples = released_samples(store, CCD)
    near = similarities(samples, None, None)
    drawn = draw_and_store(store, CCD, size, 1, near, samples)
    assert not drawn.lonely
    return [test.id for test in drawn.tests]


class FixedEmbedder(CachedEmbedder):
    """An embedder with fixed vectors, by digest and by text."""

    def __init__(self, images: dict[str, Vectors], texts: dict[str, Vectors]) -> None:
        self._images, self._texts = images, texts

    @property
    def ref(self) -> ModelRef:
        return ModelRef(name="some/embedder", revision="1")

    def embed_images(self, files: Sequence[ReadableImage]) -> Vectors:
        return np.stack([self._images[one.sha256] for one in files])

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._texts[one] for one in texts])


def test_originals_are_compared_only_with_other_originals() -> None:
    east, north, between = np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)
    images = {"anchor": east, "other": north, "contrast": between}
    texts = {"fine": east, "coarse": east, "coarse too": between}
    samples = [
        WrittenSample("anchor", Path("1.jpg"), ("fine",), ("coarse",)),
        WrittenSample("contrast", Path("1_2.jpg"), ("fine",), (), OF_ANCHOR),
        WrittenSample("other", Path("3.jpg"), ("fine",), ("coarse too",)),
    ]
    found = measured_nearest(samples, FixedEmbedder(images, texts))
    assert found.images == pytest.approx((0.6 + 0 + 0.6 + 0.8 + 0 + 0.8) / 6, abs=1e-3)
    assert found.captions == 1
    assert found.original_images == 0
    assert found.original_captions == pytest.approx(0.6)
    without = [one._replace(coarse=()) for one in samples]
    assert measured_nearest(without, FixedEmbedder(images, texts)).original_captions is None


def test_the_card_states_the_results_of_choice_tests(
    loupe: Loupe, stored: Store, tmp_path: Path
) -> None:
    tests = draw(stored, 10)
    desk = Desk(stored, f"{CCD}-choices")
    for number, test in enumerate(tests):
        desk.answer(test, "tester-1", "reject" if number == 0 else "accept")
    found = choice_statistics(stored, shipped().queue(CCD, "choices"))
    assert sum(one.correct for one in found) == 19
    assert [(one.total, one.size) for one in found] == [(10, 10), (10, 10)]
    out = tmp_path / "out"
    assert loupe("release", "build", CCD, "--version", "1.0.0", "--out", out).exit_code == 0
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "9 of 10: 90.0 %" in card
    assert "| image to caption | tester-1 | " in card
    assert "96.5 % and 95.8 %" in card
    assert verify_release(out).problems == []


def test_the_card_compares_similarities_with_table_1_of_the_paper(
    loupe: Loupe, stored: Store, tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "out", "--json")
    manifest = loupe("release", "build", CCD, "--version", "1.0.0", *out).json
    near = manifest["statistics"]["contrasts"]["nearest"]
    assert near["embedder"].startswith("loupe-")
    assert 0 < near["images"] <= 1
    assert 0 < near["captions"] <= 1
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert 0 < near["original_images"] <= 1
    assert 0 < near["original_captions"] <= 1
    for side, published in (("images", "0.449"), ("captions", "0.513")):
        cells = f"| {near[f'original_{side}']:.3f} | {near[side]:.3f} | {published} |"
        assert cells in card
    shown = "| mean cosine with the five nearest other images |"
    assert shown in card
    assert "Similarities in this release are computed with loupe-" in card
    stored.close()
