"""What commands on scores share: how a release and its split are named."""

from typing import Annotated

import typer

ReleaseArgument = Annotated[
    str,
    typer.Argument(
        help="The folder of a release; or DATASET (its newest), DATASET@VERSION, an id."
    ),
]
SplitOption = Annotated[
    str | None, typer.Option(help="Which split (default: test, or the only one).")
]
