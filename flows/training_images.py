"""What a release, or an annotation file in the published form, gives to train on."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from release.json_rows import read_json_rows
from release.manifest import MANIFEST, read_manifest
from release.ordering import SPLITS
from release.reading import ReadRelease, read_release
from retrieval.cfam.training_data import (
    TrainingImage,
    TrainingSplits,
    hold_out_identities,
    require_identities,
)
from schemas.cfam import CfamTraining
from schemas.errors import FormatError, UsageError
from schemas.records import Split

_HELD_OUT = "held out of train"


class TrainingImages(NamedTuple):
    """What is trained on, and where it comes from; `validation_split` says what is validated on.

    `without_captions` counts the images of the train split that are left out for want of a text.
    """

    splits: TrainingSplits
    name: str
    release_id: str | None
    validation_split: str
    without_captions: int


def find_training_images(path: Path, settings: CfamTraining) -> TrainingImages:
    """The images of `path`: the folder of a release, or a JSON file of rows as releases have it.

    The `val` split validates where there is one, else identities that are held out of `train`. The
    test split is never looked at.

    Raises:
        UsageError: there is neither, or too little in it to train on or to validate with.
        FormatError: the file is not in the published form.
        IntegrityError: the release is not as it was released.
    """
    if path.is_file():
        return _of_file(path, settings)
    if not (path / MANIFEST).is_file():
        raise UsageError(
            f"{path} is neither a release (a folder with a {MANIFEST}) nor a JSON file of rows; "
            f"wanted one with a train split"
        )
    return _of_release(path, settings)


def _of_release(folder: Path, settings: CfamTraining) -> TrainingImages:
    manifest = read_manifest(folder)
    name = f"{manifest.dataset} {manifest.version}"
    splits = [one.split for one in manifest.statistics.splits]
    if "train" not in splits:
        raise UsageError(
            f"{name} has no train split, only {', '.join(splits)}: it is made to evaluate with; "
            f"wanted a release with one, such as build-ufine6926 makes"
        )
    trained = _images(read_release(folder, "train"))
    validated = _images(read_release(folder, "val")) if "val" in splits else ()
    return _chosen(trained, validated, name, manifest.id, settings)


def _images(release: ReadRelease) -> tuple[TrainingImage, ...]:
    return tuple(
        TrainingImage(
            release.folder / row.file_path,
            str(row.id),
            _texts(caption.text for caption in row.captions),
        )
        for row in release.rows
    )


def _of_file(path: Path, settings: CfamTraining) -> TrainingImages:
    """Paths in the file are relative to it, as in UFine6926's and in our releases."""
    by_split: dict[Split, list[TrainingImage]] = {"train": [], "val": [], "test": []}
    try:
        for number, row in enumerate(read_json_rows(path)):
            by_split[_split_of(row, number)].append(_image_of(row, number, path.parent))
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
    trained, validated = tuple(by_split["train"]), tuple(by_split["val"])
    if not trained:
        raise UsageError(f"{path} has no rows of the train split; wanted some to train on")
    return _chosen(trained, validated, path.name, None, settings)


def _split_of(row: dict[str, Any], number: int) -> Split:
    for split in SPLITS:
        if row.get("split") == split:
            return split
    raise ValueError(
        f"row {number}: split must be train, val or test; got {row.get('split')!r:.80}"
    )


def _image_of(row: dict[str, Any], number: int, folder: Path) -> TrainingImage:
    file_path, identity, captions = (row.get(key) for key in ("file_path", "id", "captions"))
    if not isinstance(file_path, str) or isinstance(identity, list | dict | None):
        raise ValueError(  # noqa: TRY004 - a fault of the file
            f"row {number}: wanted file_path and id; got {file_path!r:.80} and {identity!r:.80}"
        )
    if not isinstance(captions, list) or not all(isinstance(text, str) for text in captions):
        raise ValueError(f"row {number}: captions must be a list of texts; got {captions!r:.80}")
    source = row.get("source")
    name = str(identity) if source is None else f"{source}/{identity}"
    return TrainingImage(folder / file_path, name, _texts(captions))


def _texts(captions: Iterable[str]) -> tuple[str, ...]:
    """The captions that say something."""
    return tuple(text for text in captions if text.strip())


def _chosen(
    trained: tuple[TrainingImage, ...],
    validated: tuple[TrainingImage, ...],
    name: str,
    release_id: str | None,
    settings: CfamTraining,
) -> TrainingImages:
    shared = {one.identity for one in trained} & {one.identity for one in validated}
    if shared:
        raise UsageError(
            f"{name}: identity {min(shared)} is in train and in val; wanted it in one of them"
        )
    described = tuple(one for one in trained if one.captions)
    if not described:
        raise UsageError(f"{name}: no image of the train split has a caption; wanted some")
    left_out = len(trained) - len(described)
    if validated:
        splits = TrainingSplits(described, validated)
        require_identities(splits, name)
        return TrainingImages(splits, name, release_id, "val", left_out)
    splits = hold_out_identities(described, settings.validation_share, settings.seed)
    return TrainingImages(splits, name, release_id, _HELD_OUT, left_out)


def missing_images(splits: TrainingSplits) -> Iterator[Path]:
    """The files that are not there."""
    for image in (*splits.training, *splits.validation):
        if not image.path.is_file():
            yield image.path
