"""The classifier of inference, and the check that asks it, with tiny random weights."""

from pathlib import Path
from typing import Any

import pytest

from loupe.checks.entailment import check_entailment
from loupe.checks.rewrites import load_check
from loupe.models.entailment import Entailment, EntailmentClassifier
from loupe.models.weights import folder_digest
from loupe.schemas.errors import ConfigurationError, ModelError
from loupe.schemas.faithfulness import RewritePair
from loupe.schemas.profile import EntailmentModel, FaithfulnessSettings

_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "man", "in", "red", "blue", "hat", ".")
COMMIT = "0" * 40
LABELS = ("contradiction", "entailment", "neutral")


def save_classifier(folder: Path, labels: tuple[str, ...] = LABELS, **values: Any) -> Path:
    """Save a small BERT that classifies pairs, with its tokenizer; `values` are for saving."""
    import torch
    import transformers as t

    folder.mkdir(parents=True)
    torch.manual_seed(0)
    network = t.BertForSequenceClassification(
        t.BertConfig(
            vocab_size=len(_WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=16,
            id2label=dict(enumerate(labels)),
            label2id={label: number for number, label in enumerate(labels)},
        )
    )
    network.save_pretrained(folder, **values)
    vocabulary = {word: place for place, word in enumerate(_WORDS)}
    t.BertTokenizer(vocab=vocabulary, model_max_length=16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("models") / "tiny")


def model_in(folder: Path, **values: Any) -> EntailmentModel:
    return EntailmentModel(name=str(folder), revision=COMMIT, device="cpu", **values)


def test_probabilities_are_in_the_order_of_labels_whatever_the_order_of_the_model(
    folder: Path, tmp_path: Path
) -> None:
    texts = "a man in a red hat.", ["a man.", "a blue hat."]
    found = EntailmentClassifier(model_in(folder)).judge(*texts)
    assert [sum(one) for one in found] == pytest.approx([1, 1], abs=1e-5)
    turned = save_classifier(tmp_path / "turned", (LABELS[1], LABELS[2], LABELS[0]))
    other = EntailmentClassifier(model_in(turned)).judge(*texts)
    for one, same in zip(found, other, strict=True):
        assert one.contradiction == pytest.approx(same.entailment, abs=1e-5)
        assert one.entailment == pytest.approx(same.neutral, abs=1e-5)


def test_a_batch_says_what_each_pair_says_alone_and_long_premises_are_cut(folder: Path) -> None:
    classifier = EntailmentClassifier(model_in(folder))
    premise, hypotheses = "a man in a red hat. " * 9, ["a man.", "a man in a blue hat."]
    together = classifier.judge(premise, hypotheses)
    alone = [classifier.judge(premise, [one])[0] for one in hypotheses]
    for one, same in zip(together, alone, strict=True):
        assert one == pytest.approx(same, abs=1e-5)
    assert classifier.judge(premise, []) == []


def test_models_with_other_labels_or_without_safetensors_are_refused(tmp_path: Path) -> None:
    other = save_classifier(tmp_path / "other", ("bad", "good", "neutral"))
    with pytest.raises(ModelError, match="has the labels bad, good, neutral"):
        EntailmentClassifier(model_in(other))
    pickled = save_classifier(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError):
        EntailmentClassifier(model_in(pickled))
    wrong = model_in(save_classifier(tmp_path / "changed"), folder_sha256="0" * 64)
    with pytest.raises(ModelError):
        EntailmentClassifier(wrong)


def test_the_check_doubts_sentences_by_the_thresholds_of_the_profile(folder: Path) -> None:
    pair = RewritePair(source="a man in a red hat.", rewrite="A man. A blue hat.")
    judged = EntailmentClassifier(model_in(folder)).judge(pair.source, ["A man.", "A blue hat."])
    assert load_check("entailment") is check_entailment

    def doubts(**limits: float) -> list[str]:
        settings = FaithfulnessSettings(entailment=model_in(folder, **limits))
        return [one.finding.change for one in check_entailment(pair, settings, ())]

    assert doubts(contradicted_from=1.0, supported_from=0.0) == []
    assert doubts(contradicted_from=1e-6) == ["contradicted"] * 2
    least = min(judged, key=lambda one: one.entailment).entailment
    assert len(doubts(contradicted_from=1.0, supported_from=least + 1e-4)) >= 1
    assert isinstance(judged[0], Entailment)
    with pytest.raises(ConfigurationError, match=r"\[faithfulness.entailment\]"):
        check_entailment(pair, FaithfulnessSettings(), ())


def test_a_model_that_is_not_pinned_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"commit \(40 hex digits\).*got 'main'"):
        EntailmentModel(name="org/nli", revision="main")
    pinned = EntailmentModel(name=str(folder), revision="1", folder_sha256="0" * 64, device="cpu")
    with pytest.raises(ModelError, match=f"has the SHA-256 {folder_digest(folder)}"):
        EntailmentClassifier(pinned)
