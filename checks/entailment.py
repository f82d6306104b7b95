"""Does each sentence of a text follow from its source? A check by a model of inference."""

from collections.abc import Sequence

from loupe.checks.rewrites import Doubt
from loupe.checks.text import sentences_of
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.faithfulness import Finding, RewritePair
from loupe.schemas.profile import FaithfulnessSettings


def check_entailment(
    pair: RewritePair, settings: FaithfulnessSettings, doubts: Sequence[Doubt]
) -> Sequence[Doubt]:
    """Doubt sentences that contradict the source or do not follow from it.

    Raises:
        ConfigurationError: the profile names no model of inference.
    """
    from loupe.models.entailment import load_entailment

    if settings.entailment is None:
        raise ConfigurationError(
            "the check 'entailment' needs a model: add [faithfulness.entailment] to the profile, "
            "see docs/profiles.md#entailment"
        )
    limits, sentences = settings.entailment, sentences_of(pair.rewrite)
    found = [*doubts]
    for sentence, one in zip(
        sentences, load_entailment(limits).judge(pair.source, sentences), strict=True
    ):
        if one.contradiction >= limits.contradicted_from:
            message = f"The rewrite says {sentence!r}; the source says otherwise"
            found.append(_doubt("contradicted", message, one.contradiction))
        elif one.entailment < limits.supported_from:
            message = f"The rewrite says {sentence!r}; it does not follow from the source"
            found.append(_doubt("unsupported", message, 1 - one.entailment))
    return found


def _doubt(change: str, message: str, chance: float) -> Doubt:
    values = {"change": change, "message": f"{message} ({100 * chance:.0f} %)."}
    return Doubt(Finding.model_validate(values))
