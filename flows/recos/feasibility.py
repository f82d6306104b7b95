"""What makes a benchmark of tasks impossible, found before its captions are paid for."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from loupe.db.entities import StoredEntity
from loupe.flows.engine.importing import read_options
from loupe.flows.recos.captioning import Captioning
from loupe.flows.recos.rendered_images import rendered_folder
from loupe.flows.recos.sign_pairs import require_writer
from loupe.release.card.model_use import is_drawn
from loupe.retrieval.discriminability import LEAST_PASSING, AcceptedInterval, discriminability
from loupe.retrieval.embeddings import Similarities, unit_rows
from loupe.schemas.build import RENDERED_IMAGES, RecosBuild, SourceSpec, format_name
from loupe.schemas.errors import ConfigurationError, DegenerateCriterionError, FormatError
from loupe.schemas.profile import BuiltinCaptioner, CaptioningSettings, Profile
from loupe.schemas.recos import DiscriminabilitySettings
from loupe.services.diagnosis import Finding, lacking
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import SourceRow
from loupe.sources.rendered import CollectionEntry, read_rendered_collection

_WITH_FACTS = ("coco-instances", "total-text", "licensed-images", RENDERED_IMAGES)
"""The formats whose known facts the built-in captioner can repeat."""
_WIDEST_SPREAD = 0.3
"""By how much the cosines of a caption with its k nearest images may differ: an assumption.

It is ten times the few hundredths by which they usually differ (docs/recos.md), but was not
measured for all models: one whose cosines differ by more would be refused wrongly.
"""
_CALIBRATE = "leave temperature out of [captioning.discriminability], so that it is calibrated"


def check_recos(build: RecosBuild, profile: Profile) -> Iterator[Finding]:
    """Check whether captions can be written and validated."""
    captioning = profile.captioning
    sources = {one.name: one for one in build.sources}
    used = [sources[name] for name in dict.fromkeys(task.source for task in build.tasks) if name]
    if isinstance(captioning.model, BuiltinCaptioner):
        for source in used:
            if format_name(source.format) not in _WITH_FACTS and not is_drawn(source):
                yield lacking(
                    f"source {source.name}",
                    "the built-in captioner can caption only drawn stills, not photographs",
                    "choose a profile with a vision model, such as --profile hosted",
                )
    try:
        require_writer(build.tasks, captioning)
    except ConfigurationError as error:
        yield lacking("further_pairs", str(error), "see docs/recos.md#rendered-tasks")
    yield from _check_count(build, used, captioning.discriminability.k)
    yield from _check_criterion(captioning)


def _check_count(build: RecosBuild, used: list[SourceSpec], k: int) -> Iterator[Finding]:
    """Check whether v0 has more images than each caption is compared with."""
    there = {source.name: _count_images(source, k + 1) for source in used}
    images = sum(
        one.images if one.source is None else min(one.images, there[one.source])
        for one in build.tasks
    )
    if images <= k:
        yield lacking(
            "images",
            f"v0 would have {images} images, and every caption is compared with {k} others",
            f"take more than {k} images, or set a smaller k in [captioning.discriminability]",
        )


def _count_images(source: SourceSpec, most: int) -> int:
    """Count the images that a source names, up to `most`.

    A file that cannot be read, or is on another machine, counts as `most`.
    """
    annotations = source.annotations
    if not isinstance(annotations, Path):
        return most
    if format_name(source.format) == RENDERED_IMAGES:
        rows = read_rendered_collection(rendered_folder(source))
        return sum(isinstance(one, CollectionEntry) for one in islice(rows, most))
    names: set[str] = set()
    try:
        for row in read_source(importer_for(source.format), annotations, read_options(source)):
            if isinstance(row, SourceRow):
                names.add(row.file_path)
            if len(names) >= most:
                break
    except (ConfigurationError, FormatError, OSError):
        return most  # another check says so
    return len(names)


def _check_criterion(captioning: CaptioningSettings) -> Iterator[Finding]:
    """Check whether a stated temperature lets a caption pass if similarities differ as they do."""
    spread = np.linspace(0, _WIDEST_SPREAD, captioning.discriminability.k)[np.newaxis]
    origin = f"if their cosines differ by {_WIDEST_SPREAD}, which is assumed to be the most"
    if detail := _impossible(captioning.discriminability, spread, origin):
        yield lacking("captioning.discriminability", detail, _CALIBRATE)


def require_criterion(models: Captioning, images: Sequence[StoredEntity]) -> None:
    """Stop before captions are written if none can pass, judged by their images.

    Images differ more in their similarities with each other than captions do.

    Raises:
        DegenerateCriterionError: none can pass at the stated temperature.
    """
    settings = models.settings.discriminability
    if settings.temperature is None or len(images) <= settings.k:
        return
    rows = unit_rows(models.embed(images), "the images to caption")
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.sort(cosines, axis=1)[:, -settings.k :].astype(np.float64)
    if detail := _impossible(settings, nearest, "from the vectors of its images"):
        raise DegenerateCriterionError(f"{detail}; {_CALIBRATE}")


def _impossible(
    settings: DiscriminabilitySettings, similarities: Similarities, origin: str
) -> str | None:
    """Return why no caption with such similarities passes, or None if some do."""
    if settings.temperature is None:
        return None
    log_k = math.log(settings.k)
    dis = discriminability(similarities, settings.temperature)
    upper = AcceptedInterval.of(settings.k, settings.eta).upper
    if np.mean(dis <= upper) >= LEAST_PASSING:
        return None
    usual = float(np.median(dis)) / log_k
    needed = math.ceil(1000 * (2 * usual - 1)) / 1000
    would = f"only an eta from about {needed:.3f} on would" if needed < 1 else "no eta would"
    return (
        f"no caption would pass: at temperature {settings.temperature:g} the softmax over the "
        f"{settings.k} nearest images is nearly even, so that dis(t) is {usual:.3f} log k "
        f"({origin}), and eta {settings.eta:g} accepts at most {upper / log_k:.2f} log k; {would}"
    )
