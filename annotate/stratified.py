"""Stratified samples: every part of a whole in its proportion, drawn by digests."""

from collections import defaultdict
from collections.abc import Mapping

from schemas.base import digest_of


def allocate(populations: Mapping[str, int], size: int) -> dict[str, int]:
    """How many of each stratum make a sample of `size`, in proportion, by largest remainders.

    A sample larger than the whole is the whole. Equal remainders go to the larger stratum, then to
    the first by name.
    """
    total = sum(populations.values())
    size = min(size, total)
    if not total:
        return dict.fromkeys(populations, 0)
    shares = {name: divmod(size * count, total) for name, count in populations.items()}
    given = {name: whole for name, (whole, _) in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (-shares[name][1], -populations[name], name))
    for name in by_remainder[: size - sum(given.values())]:
        given[name] += 1
    return given


def draw(stratum_of: Mapping[str, str], size: int, seed: str) -> list[str]:
    """A sample of `size` ids, in proportion to the strata that they belong to; ordered by digest.

    Within a stratum a larger sample holds all of a smaller one with the same seed.
    """
    strata: dict[str, list[str]] = defaultdict(list)
    for entity_id, stratum in stratum_of.items():
        strata[stratum].append(entity_id)
    wanted = allocate({name: len(ids) for name, ids in strata.items()}, size)
    places = {entity_id: digest_of("draw", seed, entity_id) for entity_id in stratum_of}
    drawn: list[str] = []
    for name, ids in strata.items():
        drawn += sorted(ids, key=places.__getitem__)[: wanted[name]]
    return sorted(drawn, key=places.__getitem__)
