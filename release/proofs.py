"""Proofs that one file belongs to a release, by its Merkle tree."""

from pathlib import Path

from pydantic import Field, ValidationError

from release.files import digest_of_file, is_plain
from release.manifest import MANIFEST, file_entry, id_of, read_files, read_manifest
from release.merkle import inclusion_proof, leaf_hash, root_of_proof
from schemas.base import Record
from schemas.errors import IntegrityError, UsageError
from schemas.faults import fault_of
from schemas.release import Count, FileEntry, HexSha256, Manifest, ReleasedFile

_LOOK = "`loupe release verify` tells what is wrong"


class InclusionProof(Record):
    """That `file` is the entry at `index` (from 0) of the release whose `manifest` this is.

    `path` are the hashes that lead from the entry to `manifest.files_root`, as in RFC 6962,
    section 2.1.1.
    """

    manifest: Manifest
    file: FileEntry
    index: Count
    path: tuple[HexSha256, ...] = Field(max_length=64)


def prove(folder: Path, path: str) -> InclusionProof:
    """The proof that the file at `path` belongs to the release in `folder`.

    Raises:
        UsageError: there is no release in `folder`, or no such file in it.
        IntegrityError: the manifest or the file is not as it was released.
    """
    where = folder / MANIFEST
    if not where.is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    try:
        manifest = read_manifest(folder)
        file, index = _find(where, path)
        hashes = (leaf_hash(file_entry(one)) for one in read_files(where))
        audit = inclusion_proof(hashes, index, manifest.files_count)
    except (ValidationError, ValueError, OSError) as error:
        raise IntegrityError(f"{where} cannot be read ({fault_of(error)}); {_LOOK}") from error
    proof = InclusionProof(
        manifest=manifest,
        file=FileEntry.model_validate(file._asdict()),
        index=index,
        path=tuple(one.hex() for one in audit),
    )
    check_proof(proof, folder / path, manifest.id)
    return proof


def check_proof(proof: InclusionProof, file: Path, release_id: str) -> None:
    """Does nothing where `proof` shows that `file` belongs to the release with this id.

    Where the file lies and what it is called there does not matter.

    Raises:
        UsageError: `file` cannot be read, or `release_id` is but the beginning of one.
        IntegrityError: it does not show that; one sentence says why.
    """
    cited = release_id.strip().lower()
    if (computed := id_of(proof.manifest)) != cited:
        if len(cited) < len(computed):
            raise UsageError(f"an id has {len(computed)} digits, all of them wanted; got {cited!r}")
        raise IntegrityError(f"the proof is of the release {computed}; wanted {cited}")
    if (root := _root(proof)) != proof.manifest.files_root:
        raise IntegrityError(
            f"the proof does not lead from {proof.file.path} to the release: it makes the root "
            f"{root}; wanted {proof.manifest.files_root}"
        )
    try:
        digest = digest_of_file(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from error
    if digest != proof.file.sha256:
        raise IntegrityError(
            f"{file} is not {proof.file.path} of the release: its SHA-256 is {digest}; "
            f"wanted {proof.file.sha256}"
        )


def write_proof(proof: InclusionProof, path: Path, folder: Path) -> None:
    """Writes a proof of the release in `folder` to a JSON file, which must not be there.

    Nothing is done where that very proof lies there.

    Raises:
        UsageError: `path` lies in the release, holds something else, or cannot be written.
    """
    if path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path} lies in the release, which never changes; name another place")
    data = (proof.model_dump_json(indent=2) + "\n").encode()
    try:
        if is_plain(path) and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{path} exists; name a file that does not") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})") from error


def read_proof(path: Path) -> InclusionProof:
    """The proof in a JSON file.

    Raises:
        UsageError: there is none that can be read.
    """
    try:
        return InclusionProof.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise UsageError(f"{path} is not a proof: {fault_of(error)}") from error


def _root(proof: InclusionProof) -> str:
    leaf = leaf_hash(file_entry(proof.file.file()))
    path = [bytes.fromhex(one) for one in proof.path]
    try:
        return root_of_proof(leaf, proof.index, proof.manifest.files_count, path).hex()
    except ValueError as error:
        raise IntegrityError(f"the proof cannot be right: {error}") from error


def _find(manifest: Path, path: str) -> tuple[ReleasedFile, int]:
    for index, file in enumerate(read_files(manifest)):
        if file.path == path:
            return file, index
    raise UsageError(f"{manifest} lists no {path!r}; name a file as it is called there")
