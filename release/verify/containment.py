"""Whether one release holds all that another one does, from their two folders alone."""

from pathlib import Path

from release.findings import Findings
from release.manifest import MANIFEST
from release.reading import ReadCaption, ReadRow, read_all_rows, read_listed
from release.scratch import Scratch
from schemas.base import digest_of
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest


def verify_containment(folder: Path, other: Path, scratch: Scratch, findings: Findings) -> None:
    """Names the images and captions of the release in `other` that are not in that in `folder`.

    An image is the same by its entity id and SHA-256, a caption by its entity id, image and text.
    Where `folder` cannot be read nothing is compared: what is wrong with it is named elsewhere.

    Raises:
        UsageError: there is no release in `other`.
        IntegrityError: it is not as it was released.
    """
    wanted, _ = read_listed(other)
    try:
        manifest, _ = read_listed(folder)
        for row in read_all_rows(folder):
            scratch.add_held(_digests(row))
    except (IntegrityError, UsageError):
        return
    _check_statement(manifest, wanted, findings)
    name = f"{wanted.dataset} {wanted.version}"
    for row in read_all_rows(other):
        for what in scratch.not_held(_digests(row)):
            message = f"{what} of {name} (its {row.file_path}) is not in this release"
            findings.add("not_contained", message, f"{manifest.dataset}.json")


def _check_statement(manifest: Manifest, wanted: Manifest, findings: Findings) -> None:
    for stated in manifest.contains:
        if stated.version == wanted.version and stated.id != wanted.id:
            message = (
                f"{MANIFEST} says that {stated.id} is contained as version {stated.version}; "
                f"that version is {wanted.id}"
            )
            findings.add("not_contained", message, MANIFEST)


def _digests(row: ReadRow) -> dict[str, str]:
    """What a row holds, with the words for it: a digest for the image and for each caption."""
    image = digest_of("image", row.entity_id, row.sha256)
    held = {image: f"image {row.entity_id}"}
    held.update((_digest(row, one), f"the caption {one.text!r}") for one in row.captions)
    return held


def _digest(row: ReadRow, caption: ReadCaption) -> str:
    return digest_of("caption", row.entity_id, caption.entity_id, caption.text)
