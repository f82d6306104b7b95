"""Merkle trees as RFC 6962 (Certificate Transparency), section 2.1, over SHA-256.

A leaf is hashed after a byte 0, a node after a byte 1, so that neither can be taken for the other.
Leaves are read once, in order; memory grows with the height of the tree, not with its leaves.
"""

import hashlib
from collections.abc import Iterable, Sequence

_LEAF, _NODE = b"\x00", b"\x01"


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf that holds `entry`, 32 bytes."""
    return hashlib.sha256(_LEAF + entry).digest()


class MerkleTree:
    """A tree that grows leaf by leaf; what is held are the roots of its complete subtrees.

    Attributes:
        size: how many leaves it has.
    """

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[bytes] = []  # of falling sizes: the bits of `size`

    def add(self, entry: bytes) -> None:
        """Appends a leaf that holds `entry`."""
        self.add_hash(leaf_hash(entry))

    def add_hash(self, leaf: bytes) -> None:
        """Appends a leaf by its hash."""
        carried = self.size
        while carried & 1:
            leaf = _node_hash(self._subtrees.pop(), leaf)
            carried >>= 1
        self._subtrees.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root over all leaves so far, 32 bytes; that of no leaves is the hash of nothing."""
        if not self._subtrees:
            return hashlib.sha256().digest()
        root = self._subtrees[-1]
        for subtree in reversed(self._subtrees[:-1]):
            root = _node_hash(subtree, root)
        return root


def inclusion_proof(leaves: Iterable[bytes], index: int, size: int) -> list[bytes]:
    """The audit path of the leaf at `index` (from 0) among `size` leaves, given by their hashes.

    Raises:
        ValueError: there are not `size` leaves, or `index` is not one of them.
    """
    ranges = _siblings(index, size)
    trees = [MerkleTree() for _ in ranges]
    of_place = sorted(range(len(ranges)), key=lambda place: ranges[place].start)
    waiting = iter(of_place)
    current, count = next(waiting, None), 0
    for number, leaf in enumerate(leaves):
        count += 1
        if current is not None and number >= ranges[current].stop:
            current = next(waiting, None)
        if current is not None and number in ranges[current]:
            trees[current].add_hash(leaf)
    if count != size:
        raise ValueError(f"there must be {size:,} leaves; got {count:,}")
    return [tree.root() for tree in trees]


def root_of_proof(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that an audit path leads to from a leaf, given by its hash.

    Raises:
        ValueError: `index` is no leaf of such a tree, or the path has not its length.
    """
    ranges = _siblings(index, size)
    if len(path) != len(ranges):
        raise ValueError(
            f"the path of leaf {index:,} of {size:,} has {len(ranges)} hashes; got {len(path)}"
        )
    root = leaf
    for sibling, hashed in zip(ranges, path, strict=True):
        root = _node_hash(hashed, root) if sibling.start < index else _node_hash(root, hashed)
    return root


def _siblings(index: int, size: int) -> list[range]:
    """The leaves below each hash of an audit path, from the leaf up to the root."""
    if not 0 <= index < size:
        raise ValueError(f"a leaf of {size:,} must have an index below that; got {index:,}")
    ranges = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + (1 << (stop - start - 1).bit_length() - 1)
        if index < middle:
            ranges.append(range(middle, stop))
            stop = middle
        else:
            ranges.append(range(start, middle))
            start = middle
    return ranges[::-1]


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()
