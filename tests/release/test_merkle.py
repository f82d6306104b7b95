"""Merkle trees against RFC 6962 written down literally."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.merkle import MerkleTree, inclusion_proof, leaf_hash, root_of_proof

# The roots over the first entries of the test vectors of RFC 6962's reference implementation.
ENTRIES = [
    bytes.fromhex(one)
    for one in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def literal_root(entries: list[bytes]) -> bytes:
    """MTH of section 2.1, word for word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = 1
    while k * 2 < len(entries):
        k *= 2
    left, right = literal_root(entries[:k]), literal_root(entries[k:])
    return hashlib.sha256(b"\x01" + left + right).digest()


def literal_path(index: int, entries: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.1, word for word."""
    if len(entries) == 1:
        return []
    k = 1
    while k * 2 < len(entries):
        k *= 2
    if index < k:
        return [*literal_path(index, entries[:k]), literal_root(entries[k:])]
    return [*literal_path(index - k, entries[k:]), literal_root(entries[:k])]


def tree_of(entries: list[bytes]) -> MerkleTree:
    tree = MerkleTree()
    for entry in entries:
        tree.add(entry)
    return tree


entry_lists = st.lists(st.binary(max_size=40), max_size=70)
distinct = st.lists(st.binary(max_size=8), min_size=1, max_size=70, unique=True)


def test_published_roots() -> None:
    for count in range(len(ROOTS)):
        assert tree_of(ENTRIES[:count]).root().hex() == ROOTS[count], count


@given(entry_lists)
def test_the_root_is_the_literal_one(entries: list[bytes]) -> None:
    tree = tree_of(entries)
    assert tree.root() == literal_root(entries)
    assert tree.size == len(entries)
    assert len(tree._subtrees) == len(entries).bit_count()  # what is held


@given(distinct)
def test_every_leaf_proves(entries: list[bytes]) -> None:
    root, leaves = literal_root(entries), list(map(leaf_hash, entries))
    for index, leaf in enumerate(leaves):
        path = inclusion_proof(iter(leaves), index, len(leaves))
        assert path == literal_path(index, entries)
        assert root_of_proof(leaf, index, len(leaves), path) == root


@given(distinct, st.data())
def test_any_change_of_a_proof_fails(entries: list[bytes], data: st.DataObject) -> None:
    root, leaves = literal_root(entries), list(map(leaf_hash, entries))
    size = len(leaves)
    index = data.draw(st.integers(0, size - 1), label="index")
    path = inclusion_proof(leaves, index, size)

    def leads(leaf: bytes, at: int, way: list[bytes]) -> bool:
        try:
            return root_of_proof(leaf, at, size, way) == root
        except ValueError:
            return False

    assert leads(leaves[index], index, path)
    assert not leads(leaf_hash(entries[index] + b"x"), index, path)
    for other in range(-1, size + 1):
        assert leads(leaves[index], other, path) == (other == index)
    for place, sibling in enumerate(path):
        flipped = bytes([sibling[0] ^ 1]) + sibling[1:]
        assert not leads(leaves[index], index, [*path[:place], flipped, *path[place + 1 :]])
        assert not leads(leaves[index], index, path[:place] + path[place + 1 :])
    assert not leads(leaves[index], index, [*path, root])


def test_a_node_cannot_pass_for_a_leaf() -> None:
    first, second = map(leaf_hash, (b"a", b"b"))
    assert tree_of([b"a", b"b"]).root() != leaf_hash(first + second)


def test_what_is_no_leaf_has_no_proof() -> None:
    leaves = [leaf_hash(b"a")] * 3
    for index, size in ((3, 3), (-1, 3), (0, 0)):
        with pytest.raises(ValueError, match="must have an index"):
            inclusion_proof(leaves, index, size)
    for size in (2, 4):
        with pytest.raises(ValueError, match=f"there must be {size} leaves; got 3"):
            inclusion_proof(leaves, 0, size)
