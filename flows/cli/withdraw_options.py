"""The options of `loupe withdraw`, and what they name."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from schemas.errors import UsageError

if TYPE_CHECKING:
    from db.store import Store
    from db.withdrawal_graph import WithdrawalTarget
    from schemas.withdrawal import Ground


EntityArgument = Annotated[
    str | None,
    typer.Argument(
        help="What to take back: an entity's id, or its first digits; with --release the file or "
        "number of a row, such as images/12.jpg."
    ),
]
IdentityOption = Annotated[
    str | None,
    typer.Option(
        help="A person: as the source calls them, with --dataset; or by the id that is published, "
        "with --release.",
        show_default=False,
    ),
]
ReleaseOption = Annotated[
    str | None,
    typer.Option(
        help="The release that names the row or the person so: its folder, DATASET (its newest), "
        "DATASET@VERSION, or an id's beginning."
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(help="A source, or with --identity the source that names the person so."),
]
VideoOption = Annotated[str | None, typer.Option(help="A video, by its file name.")]
AnnotatorOption = Annotated[
    str | None, typer.Option(help="The work of an annotator, by pseudonym.")
]
FileOption = Annotated[Path | None, typer.Option(help="A picture or a video that somebody sent.")]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(help="With --file: an image that shows the same, by its id."),
]
DatasetOption = Annotated[
    str | None, typer.Option(help="With --identity, --source and --video: only there.")
]
GroundOption = Annotated[
    str | None,
    typer.Option(help="privacy, copyright, law, consent, quality or other."),
]
ReasonOption = Annotated[str | None, typer.Option(help="In your words; they stay in the store.")]
EraseOption = Annotated[
    bool | None,
    typer.Option(
        "--erase/--keep-bytes",
        help="Erase the files, too; without it, privacy, copyright and law do.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would go, and do nothing.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with all withdrawals that are not finished.")
]
NearOption = Annotated[
    bool, typer.Option("--near/--no-near", help="With --file: look for pictures like it.")
]

_NARROWED = ("identity", "source", "video")
"""What may be taken back from one dataset only."""
_RELEASED = ("entity", "identity")
"""What a release may name."""


class NamedThing(NamedTuple):
    """What the options name, as they were given."""

    entity: str | None
    identity: str | None
    source: str | None
    video: str | None
    annotator: str | None
    file: Path | None
    also: list[str]
    dataset: str | None
    release: str | None

    def target(self, store: "Store") -> "WithdrawalTarget":
        """What is to be taken back.

        Raises:
            UsageError: the options name nothing, or several things.
        """
        from db.lineage import find_entity_id
        from db.withdrawal_graph import WithdrawalTarget
        from flows.withdrawal.plan import (
            image_in_release,
            is_file_of_row,
            person_in_release,
            refuse_two_meanings,
            target_of_file,
        )

        sort, name = self._one()
        self._refuse_astray(sort)
        if self.release is not None:
            named = image_in_release if sort == "entity" else person_in_release
            return named(store, self.release, name)
        if sort == "entity":
            if is_file_of_row(name):
                raise UsageError(
                    f"{name} is the file of a row: say of which release, with --release FOLDER or "
                    f"--release DATASET@VERSION"
                )
            return WithdrawalTarget(sort="entity", name=find_entity_id(store, name))
        if self.file is not None:
            also = tuple(find_entity_id(store, one) for one in self.also)
            return target_of_file(self.file, also)
        if sort == "identity" and self.dataset is not None and self.source is None:
            refuse_two_meanings(store, self.dataset, name)
        source = self.source if sort == "identity" else None
        return WithdrawalTarget.model_validate(
            {"sort": sort, "name": name, "dataset": self.dataset, "source": source}
        )

    def _one(self) -> tuple[str, str]:
        """The one option that names a thing, and what it says."""
        file = None if self.file is None else str(self.file)
        named = {
            "entity": self.entity,
            "identity": self.identity,
            "source": self.source if self.identity is None else None,  # else it tells whose name
            "video": self.video,
            "annotator": self.annotator,
            "file": file,
        }
        given = [(sort, name) for sort, name in named.items() if name is not None]
        if len(given) != 1:
            raise UsageError(
                "name one thing to take back: an entity's id, or one of --identity, --source, "
                "--video, --annotator and --file"
            )
        return given[0]

    def _refuse_astray(self, sort: str) -> None:
        """Refuses options that do not go with the one that names the thing."""
        if self.dataset is not None and sort not in _NARROWED:
            raise UsageError(
                "--dataset goes with --identity, --source and --video; an id means one thing, and "
                "a file or an annotator's work is taken back wherever it is: leave --dataset out"
            )
        if self.release is not None and sort not in _RELEASED:
            raise UsageError("--release goes with the file of a row, and with --identity")
        if self.release is not None and (self.dataset or self.source):
            raise UsageError("--release says of which dataset and source: leave these out")
        if self.also and self.file is None:
            raise UsageError("--also goes with --file")


def ground_called(name: str | None) -> "Ground":
    """The ground of that name.

    Raises:
        UsageError: there is none.
    """
    from typing import get_args

    from schemas.withdrawal import Ground

    grounds: tuple[Ground, ...] = get_args(Ground)
    for ground in grounds:
        if ground == name:
            return ground
    raise UsageError(
        f"say on which ground: --ground {', '.join(grounds)}; got {name!r}"
        if name
        else f"say on which ground: --ground with one of {', '.join(grounds)}"
    )
