"""Literal references of near-duplicates and kept images, and random collections."""

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.schemas.similarity import AlikePair, ImageFingerprint, NearDuplicateSettings, Sameness

Vectors = NDArray[np.float64] | None


class World(NamedTuple):
    """Images, their embeddings, the settings and the protected images."""

    images: dict[str, ImageFingerprint]
    vectors: Vectors
    settings: NearDuplicateSettings
    protected: frozenset[str]


def drawn_world(seed: int) -> World:
    """Varied, mirrored and copied images of four kinds, some without hashes."""
    random = np.random.default_rng(seed)
    count = int(random.integers(0, 40))
    kinds = random.integers(-120, 120, (4, 255)).astype(float)
    hashes = random.integers(0, 2**63, 4)
    images: dict[str, ImageFingerprint] = {}
    for number in range(count):
        if number and random.random() < 0.2:
            images[str(number)] = images[str(random.integers(number))]
            continue
        kind = int(random.integers(4))
        spectrum = kinds[kind] + random.normal(0, random.choice([4, 14, 22]), 255)
        spectrum = np.clip(spectrum, -127, 127).astype(np.int8)
        own = int(hashes[kind]) ^ sum(1 << int(bit) for bit in set(random.integers(0, 64, 4)))
        mirrored = int(hashes[(kind + 1) % 4]) ^ int(random.integers(8))
        if random.random() < 0.3:
            spectrum, own, mirrored = turned(spectrum), mirrored, own
        bare = random.random() < 0.1
        images[str(number)] = ImageFingerprint(
            sha256=f"{number:064x}",
            width_px=int(random.integers(1, 4)),
            height_px=1,
            perceptual_hash=None if bare else f"{own:016x}",
            mirrored_hash=None if bare else f"{mirrored:016x}",
            spectrum="" if bare else spectrum.tobytes().hex(),
        )
    vectors = None
    if random.random() < 0.6:
        noise = random.normal(0, random.choice([5, 20, 40]), (count, 12))
        vectors = kinds[random.integers(0, 4, count), :12] + noise
    return World(
        images,
        vectors,
        NearDuplicateSettings(mirrored=bool(random.random() < 0.8)),
        frozenset(str(one) for one in random.integers(0, max(1, count), 3)) & images.keys(),
    )


def turned(spectrum: NDArray[np.int8]) -> NDArray[np.int8]:
    """Spectrum of the mirror image: odd horizontal frequencies change their sign."""
    table = np.append(0, spectrum).reshape(16, 16) * np.where(np.arange(16) % 2, -1, 1)
    return table.reshape(-1)[1:].astype(np.int8)


def literal_pairs(
    images: Mapping[str, ImageFingerprint], settings: NearDuplicateSettings, vectors: Vectors
) -> list[AlikePair]:
    """All near-duplicate pairs, each judged separately."""
    found = []
    names = list(images)
    firsts = {one.sha256: name for name, one in reversed(list(images.items()))}
    for i, j in combinations(range(len(names)), 2):
        one, other = images[names[i]], images[names[j]]
        ends = {"first": names[i], "second": names[j]}
        if one.sha256 == other.sha256:
            if firsts[one.sha256] == names[i]:
                found.append(AlikePair(**ends, sameness=Sameness.SAME, exact=True))
            continue
        if names[i] != firsts[one.sha256] or names[j] != firsts[other.sha256]:
            continue
        embedded = None if vectors is None else cosine_distance(vectors[i], vectors[j])
        found += _judged(ends, one, other, embedded, settings)
    return found


def _judged(
    ends: Mapping[str, str],
    one: ImageFingerprint,
    other: ImageFingerprint,
    embedded: float | None,
    settings: NearDuplicateSettings,
) -> list[AlikePair]:
    hash_match = _hash_match(one, other, settings)
    hash_evidence = "different"
    if hash_match is not None:
        hash_evidence = "same" if hash_match[0] <= settings.spectrum_distance else "unclear"
    embedding_evidence = "none"
    if embedded is not None:
        embedding_evidence = "same" if embedded <= settings.embedding_distance else "different"
        if settings.embedding_distance < embedded <= settings.doubtful_embedding_distance:
            embedding_evidence = "unclear"
    same = {("same", "same"), ("same", "unclear"), ("same", "none"), ("unclear", "same")}
    doubtful = {("same", "different"), ("unclear", "unclear"), ("unclear", "none")}
    doubtful |= {("different", "same")}
    if (hash_evidence, embedding_evidence) not in same | doubtful:
        return []
    sameness = Sameness.SAME if (hash_evidence, embedding_evidence) in same else Sameness.DOUBTFUL
    measured = {}
    if hash_match is not None:
        measured = {
            "spectrum_distance": hash_match[0],
            "mirrored": hash_match[1],
            "hash_bits": hash_match[2],
        }
    return [AlikePair(**ends, sameness=sameness, embedding_distance=embedded, **measured)]


def _hash_match(
    one: ImageFingerprint, other: ImageFingerprint, settings: NearDuplicateSettings
) -> tuple[float, bool, int] | None:
    """Spectrum distance, whether mirrored, and hash distance in bits; None if they differ."""
    if one.perceptual_hash is None or other.perceptual_hash is None:
        return None
    assert one.mirrored_hash is not None
    assert other.mirrored_hash is not None
    spectra = [np.frombuffer(bytes.fromhex(it.spectrum), np.int8) for it in (one, other)]
    hash_matches = []
    bits = _bits(one.perceptual_hash, other.perceptual_hash)
    if bits <= settings.hash_bits:
        hash_matches.append((cosine_distance(*spectra), False, bits))
    mirrored_bits = (
        _bits(one.perceptual_hash, other.mirrored_hash),
        _bits(one.mirrored_hash, other.perceptual_hash),
    )
    if settings.mirrored and min(mirrored_bits) <= settings.hash_bits:
        hash_matches.append(
            (cosine_distance(spectra[0], turned(spectra[1])), True, mirrored_bits[0])
        )
    near = [
        hash_match
        for hash_match in hash_matches
        if hash_match[0] <= settings.doubtful_spectrum_distance
    ]
    return min(near, default=None)


def _bits(one: str, other: str) -> int:
    return (int(one, 16) ^ int(other, 16)).bit_count()


def cosine_distance(one: NDArray[np.generic], other: NDArray[np.generic]) -> float:
    first, second = one.astype(float), other.astype(float)
    cosine = first @ second / np.sqrt((first @ first) * (second @ second))
    return max(0.0, float(np.round(1 - cosine, 6)))


def literal_near_duplicates(world: World, contents: Mapping[str, str]) -> dict[str, set[str]]:
    """Duplicates of each image that has any: its pairs and the copies of both sides."""
    images = world.images
    pairs = literal_pairs(images, world.settings, world.vectors)
    duplicates: dict[str, set[str]] = {name: set() for name in images}
    for pair in pairs:
        known = [contents.get(end) for end in (pair.first, pair.second)]
        if not pair.exact and None not in known and known[0] != known[1]:
            continue
        sides = [
            {name for name in images if images[name].sha256 == images[end].sha256}
            for end in (pair.first, pair.second)
        ]
        for side, others in (sides, sides[::-1]):
            for name in side:
                duplicates[name] |= others - {name}
    return {name: others for name, others in duplicates.items() if others}


def literal_kept(world: World, protected: Collection[str]) -> list[str]:
    """Kept images: in order of rank, each that is no duplicate of one already kept."""
    images, order = world.images, list(world.images)
    order.sort(key=lambda name: (name not in protected, -images[name].pixels))
    same = [
        pair
        for pair in literal_pairs(images, world.settings, world.vectors)
        if pair.sameness is Sameness.SAME
    ]
    duplicates = {
        frozenset((images[pair.first].sha256, images[pair.second].sha256)) for pair in same
    }
    kept: list[str] = []
    for name in order:
        own = images[name].sha256
        others = {images[one].sha256 for one in kept}
        is_like = own in others or any(frozenset((own, other)) in duplicates for other in others)
        if name in protected or not is_like:
            kept.append(name)
    return [name for name in images if name in kept]
