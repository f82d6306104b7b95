"""Proofs that one file belongs to a release."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli.release import app
from release.build import build_release
from release.manifest import id_of, read_files, read_manifest
from release.proofs import InclusionProof, check_proof, prove, read_proof, write_proof
from schemas.errors import IntegrityError, UsageError
from tests.release.worlds import DATASET, small_world, store_world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("proofs")
    world = store_world(home / "world", small_world().contents())
    built = build_release(world.store, world.blobs, DATASET, "1.0.0", home / "out")
    world.store.close()
    return built.folder


@pytest.fixture
def proof(folder: Path) -> InclusionProof:
    return prove(folder, "images/7.jpg")


def test_every_file_of_a_release_is_proven(folder: Path) -> None:
    release_id = read_manifest(folder).id
    paths = [entry.path for entry in read_files(folder / "manifest.json")]
    assert len(paths) > 12
    for index, path in enumerate(paths):
        found = prove(folder, path)
        assert (found.index, found.file.path) == (index, path)
        check_proof(found, folder / path, release_id)


def test_images_are_known_by_their_entity(folder: Path, proof: InclusionProof) -> None:
    assert proof.file.entity_id is not None
    assert prove(folder, "README.md").file.entity_id is None


def test_the_name_of_the_file_does_not_matter(
    folder: Path, proof: InclusionProof, tmp_path: Path
) -> None:
    found = Path(shutil.copy(folder / "images/7.jpg", tmp_path / "found.jpg"))
    check_proof(proof, found, proof.manifest.id.upper())


def test_another_file_is_not_proven(folder: Path, proof: InclusionProof) -> None:
    with pytest.raises(IntegrityError, match=r"is not images/7.jpg of the release"):
        check_proof(proof, folder / "images/8.jpg", proof.manifest.id)


def test_the_id_must_be_the_cited_one_as_a_whole(folder: Path, proof: InclusionProof) -> None:
    with pytest.raises(IntegrityError, match="the proof is of the release"):
        check_proof(proof, folder / "images/7.jpg", "0" * 64)
    for cited in (proof.manifest.id[:32], ""):
        with pytest.raises(UsageError, match="an id has 64 digits, all of them wanted"):
            check_proof(proof, folder / "images/7.jpg", cited)


def forged(proof: InclusionProof, **changes: Any) -> InclusionProof:
    return proof.model_copy(update=changes)


def test_a_forged_proof_leads_nowhere(folder: Path, proof: InclusionProof) -> None:
    image, release_id = folder / "images/8.jpg", proof.manifest.id
    other = prove(folder, "images/8.jpg").file
    with pytest.raises(IntegrityError, match=r"does not lead from images/8.jpg to the release"):
        check_proof(forged(proof, file=other), image, release_id)
    with pytest.raises(IntegrityError, match="does not lead"):
        check_proof(forged(proof, index=proof.index + 1), folder / "images/7.jpg", release_id)
    with pytest.raises(IntegrityError, match=r"cannot be right: the path .* hashes; got"):
        check_proof(forged(proof, path=proof.path[1:]), folder / "images/7.jpg", release_id)
    with pytest.raises(IntegrityError, match="cannot be right: a leaf of"):
        check_proof(forged(proof, index=10**6), folder / "images/7.jpg", release_id)


def test_a_manifest_that_fits_a_forged_proof_has_another_id(
    folder: Path, proof: InclusionProof
) -> None:
    from release.manifest import file_entry
    from release.merkle import leaf_hash

    stranger = proof.file.model_copy(update={"path": "images/99.jpg"})
    alone = proof.manifest.model_copy(
        update={"files_root": leaf_hash(file_entry(stranger.file())).hex(), "files_count": 1}
    )
    lonely = InclusionProof(manifest=alone, file=stranger, index=0, path=())
    check_proof(lonely, folder / "images/7.jpg", id_of(alone))
    with pytest.raises(IntegrityError, match="the proof is of the release"):
        check_proof(lonely, folder / "images/7.jpg", proof.manifest.id)


def test_nothing_is_proven_of_a_damaged_release(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "images/7.jpg").write_bytes(b"other")
    with pytest.raises(IntegrityError, match=r"is not images/7.jpg of the release"):
        prove(copy, "images/7.jpg")
    text = (copy / "manifest.json").read_text("utf-8")
    (copy / "manifest.json").write_text(text.replace('"images/9.jpg"', '"images/19.jpg"'), "utf-8")
    with pytest.raises(IntegrityError, match="does not lead"):
        prove(copy, "images/8.jpg")
    (copy / "manifest.json").write_text(text[:-30], "utf-8")
    with pytest.raises(IntegrityError, match="cannot be read"):
        prove(copy, "images/8.jpg")


def test_what_is_not_there_is_a_usage_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"lists no 'images/77.jpg'"):
        prove(folder, "images/77.jpg")
    with pytest.raises(UsageError, match="there is no release in"):
        prove(tmp_path, "images/7.jpg")
    (tmp_path / "proof.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a proof: manifest is missing"):
        read_proof(tmp_path / "proof.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read_proof(tmp_path / "nothing.json")


def loupe_release(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    release_id, image = read_manifest(folder).id, folder / "images/7.jpg"
    written = tmp_path / "7.json"
    details = loupe_release("prove", folder, "images/7.jpg", "--out", written)
    assert (details.exit_code, release_id in details.stdout) == (0, True)
    shown = json.loads(loupe_release("prove", folder, "images/7.jpg", "--json").stdout)
    assert shown == json.loads(written.read_text("utf-8"))
    good = loupe_release("check-proof", written, image, "--id", release_id)
    assert (good.exit_code, "is images/7.jpg of ufine3c 1.0.0" in good.stdout) == (0, True)
    other = folder / "images/8.jpg"
    bad = loupe_release("check-proof", written, other, "--id", release_id, "--json")
    found = json.loads(bad.stdout)
    assert (bad.exit_code, found["ok"]) == (1, False)
    assert "is not images/7.jpg" in found["problem"]


def test_proofs_are_written_beside_releases_and_over_nothing(
    folder: Path, proof: InclusionProof, tmp_path: Path
) -> None:
    written = tmp_path / "7.json"
    write_proof(proof, written, folder)
    write_proof(proof, written, folder)
    assert read_proof(written) == proof
    written.write_text("mine")
    (tmp_path / "link.json").symlink_to(folder / "7.json")
    before = sorted(folder.rglob("*"))
    for place, details in (
        (written, "7.json exists; name a file that does not"),
        (tmp_path, "exists; name a file"),
        (tmp_path / "nodir/7.json", "cannot be written (No such file or directory)"),
        (written / "7.json", "cannot be written (Not a directory)"),
        (folder / "images/../7.json", "lies in the release, which never changes"),
        (tmp_path / "link.json", "lies in the release"),
    ):
        with pytest.raises(UsageError, match=re.escape(details)):
            write_proof(proof, place, folder)
    assert (written.read_text(), sorted(folder.rglob("*"))) == ("mine", before)
    refused = loupe_release("prove", folder, "images/7.jpg", "--out", folder / "7.json")
    assert isinstance(refused.exception, UsageError)
