"""Version numbers required by differences between releases."""

from loupe.release.changes import (
    Bump,
    ComparedRelease,
    Difference,
    FieldChange,
    RowCounts,
    check_version,
    least_version,
    required_bump,
)
from loupe.schemas.taxonomy import Tier

CARD = FieldChange(field="files.README.md", before="1", after="2")


def difference(
    version: str = "1.2.3",
    *,
    tier: Tier | None = None,
    later_tier: Tier | None = None,
    dataset: str = "set",
    metadata: tuple[FieldChange, ...] = (),
    **rows: int,
) -> Difference:
    release = ComparedRelease(
        dataset="set", version=version, tier=tier, id="0" * 64, folder="release"
    )
    after = release.model_copy(update={"tier": later_tier or tier, "dataset": dataset})
    counts = RowCounts(same=7, **rows)
    return Difference(before=release, after=after, rows=counts, metadata=metadata)


def test_differences_require_a_version_bump() -> None:
    cases: list[tuple[Difference, Bump, str]] = [
        (difference(), Bump.NONE, "1.2.3"),
        (difference(metadata=(CARD,)), Bump.PATCH, "1.2.4"),
        (difference(restated=1), Bump.PATCH, "1.2.4"),
        (difference(added=1, restated=1, metadata=(CARD,)), Bump.MINOR, "1.3.0"),
        (difference(removed=1, added=4), Bump.MAJOR, "2.0.0"),
        (difference(changed=1), Bump.MAJOR, "2.0.0"),
        (difference(moved=1), Bump.MAJOR, "2.0.0"),
        (difference("0.1.0", changed=1), Bump.MAJOR, "0.2.0"),
        (difference("0.1.0", added=1), Bump.MINOR, "0.2.0"),
        (difference("1.2.3", tier="v1", changed=1), Bump.MAJOR, "1.3.0"),
        (difference("1.2.3", tier="v1", added=1), Bump.MINOR, "1.3.0"),
        (difference("1.2.3", tier="v1", metadata=(CARD,)), Bump.PATCH, "1.2.4"),
        (difference("1.9.9", added=1), Bump.MINOR, "1.10.0"),
    ]
    for found, bump, least in cases:
        assert (required_bump(found), least_version(found)) == (bump, least), (found, bump, least)
        assert check_version(found, least) is None, (found, bump, least)


def test_a_version_that_is_too_small_is_reported() -> None:
    cases: list[tuple[Difference, str, str]] = [
        (
            difference("0.1.0", added=12),
            "0.1.1",
            "is 0.1.1, must be at least 0.2.0: 12 rows were added",
        ),
        (
            difference(removed=1, changed=2000, moved=3, added=9),
            "1.10.0",
            (
                "is 1.10.0, must be at least 2.0.0: 1 row was removed, 2,000 changed, "
                "3 moved between splits"
            ),
        ),
        (
            difference(metadata=(CARD,)),
            "1.2.3",
            "is 1.2.3, must be at least 1.2.4: rows are equal, but 1 other value differs",
        ),
        (
            difference(metadata=(CARD, CARD)),
            "1.2.3",
            "is 1.2.3, must be at least 1.2.4: rows are equal, but 2 other values differ",
        ),
        (difference(), "1.2.2", "is 1.2.2, must be at least 1.2.3: nothing is different"),
    ]
    for found, version, sentence in cases:
        assert check_version(found, version) == sentence, (
            found,
            version,
            sentence,
        )


def test_other_datasets_and_tiers_are_not_compared() -> None:
    assert check_version(difference("0.1.0", dataset="other", removed=1), "0.1.0") is None
    across = difference("0.1.0", tier="v0", later_tier="v1", removed=1)
    assert check_version(across, "0.1.0") is None
