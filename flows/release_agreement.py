"""How far people agree in the review queues of a dataset, as its release states it."""

from annotate.agreement import ChoiceAgreement, TextAgreement, agreement
from annotate.shared_answers import shared_answers
from db.store import Store
from flows.queues import declared_queues, queues_in_use
from profiles.settings import Settings
from schemas.release import AgreementStatistics

_DECIMALS = 3


def agreement_statistics(
    store: Store, settings: Settings, dataset: str
) -> tuple[AgreementStatistics, ...]:
    """A line for each queue and control that several people answered for the same items."""
    lines: list[AgreementStatistics] = []
    for queue in queues_in_use(store, declared_queues(settings)):
        if queue.dataset != dataset:
            continue
        shared = shared_answers(store, queue.name)
        found = agreement(shared.items)
        lines += [_choice(queue.name, shared.annotators, one) for one in found.choices]
        lines += [_text(queue.name, shared.annotators, one) for one in found.texts]
    return tuple(line for line in lines if line.items)


def _choice(queue: str, annotators: int, found: ChoiceAgreement) -> AgreementStatistics:
    alpha = found.krippendorff
    return AgreementStatistics(
        queue=queue,
        control=found.control,
        kind="choice",
        items=found.alike.items,
        annotators=annotators,
        alike=round(found.alike.value or 0.0, _DECIMALS),
        coefficient=_rounded(alpha.value),
        low=_rounded(alpha.low),
        high=_rounded(alpha.high),
    )


def _text(queue: str, annotators: int, found: TextAgreement) -> AgreementStatistics:
    return AgreementStatistics(
        queue=queue,
        control=found.control,
        kind="text",
        items=found.similarity.items,
        annotators=annotators,
        alike=round(found.similarity.value or 0.0, _DECIMALS),
    )


def _rounded(value: float | None) -> float | None:
    """What the last digits of floating point could change does not show."""
    return None if value is None else round(value, _DECIMALS)
