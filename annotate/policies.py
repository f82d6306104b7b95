"""Policies: which entities of a queue people look at, and what is decided without them."""

import re
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from schemas.base import Record, digest_of
from schemas.errors import UsageError

_DIGEST_RANGE = 1 << 128


class Required(Record):
    """People look at every entity."""

    policy: Literal["required"] = "required"

    def __str__(self) -> str:
        return self.policy


class Sample(Record):
    """People look at a share of what the checks found faithful, and at all that they suspect.

    The draw hangs on each entity's id and `seed` alone: neither order nor what else is in the
    queue changes it.
    """

    policy: Literal["sample"] = "sample"
    rate: float = Field(ge=0, le=1)
    seed: int = 0

    def draws(self, entity_id: str) -> bool:
        """Whether the entity is in the sample."""
        digest = digest_of("sample", str(self.seed), entity_id)
        return int(digest, 16) < self.rate * _DIGEST_RANGE

    def __str__(self) -> str:
        return f"sample:{self.rate:g}:{self.seed}"


class Auto(Record):
    """Nobody looks: what the checks found faithful is accepted, what they suspect is rejected."""

    policy: Literal["auto"] = "auto"

    def __str__(self) -> str:
        return self.policy


Policy = Annotated[Required | Sample | Auto, Field(discriminator="policy")]


def parse_policy(text: str) -> Policy:
    """The policy that `text` names: `required`, `auto`, `sample:RATE` or `sample:RATE:SEED`.

    Raises:
        UsageError: it names none.
    """
    matched = re.fullmatch(r"(\w+)(?::([^:]+))?(?::([^:]+))?", text)
    names = ("policy", "rate", "seed")
    given = zip(names, matched.groups(), strict=True) if matched else ()
    try:
        adapter: TypeAdapter[Policy] = TypeAdapter(Policy)
        return adapter.validate_python({name: value for name, value in given if value is not None})
    except ValidationError as error:
        raise UsageError(
            "a policy must be 'required', 'auto', 'sample:RATE' or 'sample:RATE:SEED' with a rate "
            f"from 0 to 1; got {text!r}"
        ) from error
