"""Why nothing of a dataset can be released, in a sentence."""

from schemas.release import ReleaseStatistics


def empty_release_reason(dataset: str, images: int, statistics: ReleaseStatistics) -> str:
    """The sentence for a dataset of so many images, none of which may be released.

    `statistics` are those of the release that there would be.
    """
    reasons = [f"it has {_counted(images, 'image')}, none of them with a caption"]
    rewrites, contrasts = statistics.rewrites, statistics.contrasts
    if rewrites.pending:
        reasons.append(f"{_counted(rewrites.pending, 'text')} not decided on yet")
    if rewrites.rejected:
        reasons.append(f"{_counted(rewrites.rejected, 'text')} turned down")
    if contrasts is not None and (left_out := contrasts.left_out) is not None:
        details = (
            (left_out.alone, "anchor", "without an image that differs from it"),
            (left_out.turned_down, "group", "with captions that were turned down"),
            (left_out.undecided, "group", "whose captions are not written or not decided on"),
        )
        reasons += [f"{_counted(count, what)} {why}" for count, what, why in details if count]
    return f"nothing of {dataset!r} can be released: {'; '.join(reasons)}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
