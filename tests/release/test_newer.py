"""Newer releases: of the same dataset and tier, and signed by the expected key, if any."""

import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from loupe.release.format.manifest import read_manifest
from loupe.release.format.signing import SIGNATURE, Signature, Signer, write_signature
from loupe.release.newer import newest_of, releases_beside
from loupe.schemas.release import Manifest

OURS = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
THEIRS = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))))
ID = "f" * 64


@pytest.fixture(scope="module")
def manifest(sound: Path) -> Manifest:
    return read_manifest(sound)


def with_values(manifest: Manifest, **values: str) -> Manifest:
    return manifest.model_copy(update=values)


@pytest.mark.parametrize(
    ("values", "is_newer"),
    [
        ({"version": "1.0.1"}, True),
        ({"version": "1.10.0"}, True),
        ({"version": "1.0.0"}, False),
        ({"version": "0.9.0"}, False),
        ({"version": "2.0.0", "tier": "v1"}, False),
        ({"version": "2.0.0", "dataset": "another"}, False),
    ],
)
def test_a_higher_version_of_the_same_dataset_and_tier_is_newer(
    manifest: Manifest, values: dict[str, str], is_newer: bool
) -> None:
    other = with_values(manifest, **values)
    newest = newest_of(manifest, [(other, Path("x"))])
    assert (newest is not None) is is_newer


def test_releases_of_a_tier_are_compared_within_it(manifest: Manifest) -> None:
    own, higher = (with_values(manifest, version="1.2.0", tier=tier) for tier in ("v1", "v2"))
    ours = with_values(manifest, tier="v1")
    newest = newest_of(ours, [(higher, Path("higher")), (own, Path("own"))])
    assert newest is not None
    assert newest.folder == "own"


def test_the_newest_of_several_is_named_in_any_order(manifest: Manifest) -> None:
    known = [
        (with_values(manifest, version=one), Path(one)) for one in ("1.9.0", "1.10.0", "1.2.0")
    ]
    for order in (known, known[::-1]):
        newest = newest_of(manifest, order)
        assert newest is not None
        assert newest.version == "1.10.0"


def false_signature() -> Signature:
    right = OURS.sign(ID)
    return right.model_copy(update={"signature": THEIRS.sign(ID).signature})


@pytest.mark.parametrize(
    ("signature", "is_signed"),
    [
        (OURS.sign(ID), True),
        (None, False),
        (THEIRS.sign(ID), False),
        (OURS.sign("0" * 64), False),
        (false_signature(), False),
    ],
    ids=["by the key", "unsigned", "by another key", "of another release", "false"],
)
def test_with_a_key_only_releases_that_it_signed_count(
    manifest: Manifest, tmp_path: Path, signature: Signature | None, is_signed: bool
) -> None:
    if signature is not None:
        write_signature(tmp_path, signature)
    known = [(with_values(manifest, version="2.0.0", id=ID), tmp_path)]
    assert newest_of(manifest, known) is not None
    assert (newest_of(manifest, known, OURS.public_key) is not None) is is_signed


def test_a_damaged_signature_does_not_count(manifest: Manifest, tmp_path: Path) -> None:
    (tmp_path / SIGNATURE).write_text("{")
    known = [(with_values(manifest, version="2.0.0", id=ID), tmp_path)]
    assert newest_of(manifest, known, OURS.public_key) is None


def test_releases_beside_a_folder_are_found_unless_their_manifest_is_damaged(
    sound: Path, tmp_path: Path
) -> None:
    for name in ("here", "sound", "changed", "empty"):
        (tmp_path / name).mkdir()
        if name != "empty":
            shutil.copy(sound / "manifest.json", tmp_path / name)
    manifest = tmp_path / "changed" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"1.0.0"', '"1.0.9"', 1))
    assert [folder.name for _, folder in releases_beside(tmp_path / "here")] == ["sound"]
