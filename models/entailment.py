"""Whether one text follows from another, by any classifier of natural-language inference."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.models.adapter import Adapter
from loupe.models.weights import load_network, loading_faults, torch_device
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.profile import EntailmentModel

_LABELS = ("entailment", "neutral", "contradiction")


class Entailment(NamedTuple):
    """Probabilities that a hypothesis follows from a premise, is open, or contradicts it."""

    entailment: float
    neutral: float
    contradiction: float


class EntailmentClassifier(Adapter[EntailmentModel]):
    """A sequence classification model of transformers with the three labels of inference.

    Its configuration must name them (`id2label`), in any order. Weights are read from safetensors
    only, and no code of the model's repository is run.
    """

    def __init__(self, spec: EntailmentModel) -> None:
        """Load the model.

        Raises:
            MissingExtraError: torch or transformers is not installed.
            ModelError: it cannot be loaded, or has other labels.
        """
        super().__init__(spec)
        with needs_extra(f"the entailment model {spec.name!r}"):
            import torch  # noqa: F401
            import transformers
        with loading_faults("transformers", spec.ref):
            network = load_network(
                transformers.AutoModelForSequenceClassification,
                spec.ref,
                spec.folder_sha256,
                trust_remote_code=False,
            )
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                spec.name, revision=spec.revision, trust_remote_code=False
            )
        self._order = _order_of(spec, network.config.id2label)
        self._device = torch_device(spec.device)
        self._network = network.to(self._device)

    def judge(self, premise: str, hypotheses: Sequence[str]) -> list[Entailment]:
        """Return for each hypothesis whether it follows from the premise.

        If a pair is longer than the model can read, the end of the premise is cut.
        """
        import torch

        if not hypotheses:
            return []
        inputs = self._tokenizer(
            [premise] * len(hypotheses),
            list(hypotheses),
            truncation="only_first",
            padding=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            logits = self._network(**inputs.to(self._device)).logits.float()
            shares: NDArray[np.float32] = logits.softmax(dim=1)[:, self._order].cpu().numpy()
        return [Entailment(*map(float, row)) for row in shares]


def _order_of(spec: EntailmentModel, names: dict[int, str]) -> list[int]:
    """Return the outputs of the model in the order of the labels."""
    numbers = {name.casefold(): number for number, name in names.items()}
    if numbers.keys() != set(_LABELS):
        raise ModelError(
            f"{spec.ref} has the labels {', '.join(map(str, names.values()))}; a model of "
            f"inference has {', '.join(_LABELS)}"
        )
    return [numbers[label] for label in _LABELS]


@cache
def load_entailment(spec: EntailmentModel) -> EntailmentClassifier:
    """Return the model, loaded once in a process."""
    return EntailmentClassifier(spec)
