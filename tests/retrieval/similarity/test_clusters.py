"""Clusters of near-duplicate images and the images kept of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from loupe.retrieval.similarity.near_duplicates import NearDuplicates, find_near_duplicates
from loupe.retrieval.similarity.spectrum import small_colours
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings
from tests.retrieval.similarity.literal import drawn_world, literal_kept, literal_pairs
from tests.retrieval.similarity.pictures import VARIANTS, encoded, street
from tests.retrieval.similarity.test_pairs import fingerprints

SETTINGS = NearDuplicateSettings(spectrum_distance=0.02, doubtful_spectrum_distance=0.04)


def on_a_circle(place: float, *, number: int = 0, pixels: int = 1) -> ImageFingerprint:
    """A fingerprint with a spectrum at `place` degrees on a circle; 11.4° are 0.02 apart."""
    spectrum = np.zeros(255)
    spectrum[:2] = np.cos(np.radians(place)), np.sin(np.radians(place))
    return ImageFingerprint(
        sha256=f"{number:064x}",
        width_px=pixels,
        height_px=1,
        perceptual_hash="0" * 16,
        mirrored_hash="f" * 16,
        spectrum=np.rint(127 * spectrum).astype(np.int8).tobytes().hex(),
    )


def test_duplicates_of_duplicates_are_not_merged() -> None:
    images = {str(n): on_a_circle(10 * n, number=n, pixels=9 - n) for n in range(5)}
    found = find_near_duplicates(images, SETTINGS)
    assert found.kept == ("0", "2", "4")
    assert [cluster.members for cluster in found.clusters] == [("0", "1"), ("2", "3")]


def test_protected_images_are_kept_and_replace_larger_ones() -> None:
    images = {
        "large": on_a_circle(0, number=0, pixels=9),
        "copy": on_a_circle(0, number=0, pixels=9),
        "v1 a": on_a_circle(0, number=1),
        "v1 b": on_a_circle(0, number=2),
    }
    found = find_near_duplicates(images, SETTINGS, protected={"v1 a", "v1 b"})
    assert found.kept == ("v1 a", "v1 b")
    assert [cluster.members for cluster in found.clusters] == [("v1 a", "large", "copy")]


collections = st.lists(
    st.tuples(st.sampled_from([0, 5, 10, 14, 40, 50, 90]), st.integers(1, 3), st.booleans()),
    max_size=12,
)


@given(collections)
def test_kept_images_differ_and_every_dropped_one_duplicates_a_kept_one(
    drawn: list[tuple[int, int, bool]],
) -> None:
    images = {
        f"{place}": on_a_circle(angle, number=angle * 10 + pixels, pixels=pixels)
        for place, (angle, pixels, _) in enumerate(drawn)
    }
    protected = {f"{place}" for place, (_, _, safe) in enumerate(drawn) if safe}
    found = find_near_duplicates(images, SETTINGS, protected=protected)
    duplicates = _duplicate_pairs(found, images)
    kept = set(found.kept)
    assert protected <= kept
    assert not any({one, other} <= kept - protected for one, other in duplicates)
    dropped = [name for cluster in found.clusters for name in cluster.members[1:]]
    assert sorted([*found.kept, *dropped]) == sorted(images)
    for cluster in found.clusters:
        assert cluster.kept in kept
        assert all(_are_duplicates(duplicates, cluster.kept, name) for name in cluster.members[1:])
    assert all({pair.first, pair.second} <= kept for pair in found.doubtful)
    report = found.report
    assert report.kept + report.exact + report.near + report.mirrored == report.images
    assert (report.kept, report.clusters) == (len(found.kept), len(found.clusters))


def _duplicate_pairs(
    found: NearDuplicates, images: dict[str, ImageFingerprint]
) -> set[tuple[str, str]]:
    """All pairs of equal content, including the pairs of exact copies."""
    reported = {(pair.first, pair.second) for pair in found.pairs}
    duplicates = {
        (one, other)
        for first, second in reported
        for one in images
        for other in images
        if images[one].sha256 == images[first].sha256
        and images[other].sha256 == images[second].sha256
    }
    same_bytes = {
        (one, other)
        for one in images
        for other in images
        if one != other and images[one].sha256 == images[other].sha256
    }
    return {pair for pair in duplicates | same_bytes if pair[0] != pair[1]}


def _are_duplicates(duplicates: set[tuple[str, str]], one: str, other: str) -> bool:
    return (one, other) in duplicates or (other, one) in duplicates


def test_the_report_of_a_collection_with_planted_variants() -> None:
    data = {str(number): encoded(street(number)) for number in range(20)}
    data |= {"copy": data["0"]}
    data |= {kind: vary(street(3)) for kind, vary in VARIANTS.items()}
    report = find_near_duplicates(fingerprints(data), NearDuplicateSettings()).report
    assert (report.images, report.kept, report.exact, report.mirrored) == (28, 20, 1, 1)
    assert (report.near, report.clusters, report.doubtful) == (6, 2, 0)


@given(st.integers(0, 10_000))
def test_kept_images_equal_the_literal_reference(seed: int) -> None:
    world = drawn_world(seed)
    found = find_near_duplicates(
        world.images, world.settings, embeddings=world.vectors, protected=world.protected
    )
    assert list(found.kept) == literal_kept(world, world.protected)
    kept = set(found.kept)
    pairs = literal_pairs(world.images, world.settings, world.vectors)
    assert list(found.pairs) == [pair for pair in pairs if pair.sameness == "same"]
    assert list(found.doubtful) == [
        pair for pair in pairs if pair.sameness == "doubtful" and {pair.first, pair.second} <= kept
    ]


def test_images_of_one_layout_in_other_colours_are_in_doubt() -> None:
    red, green, blue = street(5).split()
    data = {
        "one": encoded(street(5)),
        "recoloured": encoded(Image.merge("RGB", (blue, red, green))),
    }
    data |= {kind: vary(street(5)) for kind, vary in VARIANTS.items()}
    data |= {"grey": encoded(ImageOps.grayscale(street(5)))}
    loose = NearDuplicateSettings(spectrum_distance=0.2, doubtful_spectrum_distance=0.2)
    found = find_near_duplicates(
        fingerprints(data), loose, colours_of=lambda name: small_colours(data[name])
    )
    assert found.kept == ("one", "recoloured")
    assert {(pair.first, pair.second) for pair in found.doubtful} == {found.kept}
    (cluster,) = found.clusters
    assert set(cluster.members) == {"one", "grey", *VARIANTS}
    assert len(find_near_duplicates(fingerprints(data), loose).kept) == 1
