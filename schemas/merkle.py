"""Merkle trees over SHA-256 (RFC 6962, section 2.1)."""

import hashlib
from collections.abc import Sequence


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf; the byte 0 before it cannot begin the content of a node."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def merkle_levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return the hashes of all levels of a tree, from its leaves (at least one) to its root."""
    levels = [list(leaves)]
    while len(last := levels[-1]) > 1:
        pairs = zip(last[::2], last[1::2], strict=False)
        levels.append([node_hash(*pair) for pair in pairs] + last[len(last) & ~1 :])
    return levels


def merkle_proof(levels: Sequence[Sequence[bytes]], place: int) -> list[bytes]:
    """Return the hashes beside the path from the leaf at `place` to the root, lowest first."""
    beside = [(level, (place >> height) ^ 1) for height, level in enumerate(levels)]
    return [level[at] for level, at in beside if at < len(level)]


def merkle_root(leaf: bytes, place: int, leaves: int, proof: Sequence[bytes]) -> bytes | None:
    """Return the root that a proof leads to from one of so many leaves; None if it is no proof."""
    found, hashes = leaf, list(proof)
    while leaves > 1:
        if place ^ 1 < leaves:
            if not hashes:
                return None
            other = hashes.pop(0)
            found = node_hash(other, found) if place & 1 else node_hash(found, other)
        place, leaves = place >> 1, (leaves + 1) >> 1
    return None if hashes else found
