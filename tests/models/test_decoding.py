import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from models.transformers_chat import SchemaConstraint, SchemaGrammar, SeededDraw  # noqa: E402 - needs torch

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def draws(count: int, seed: int | None) -> list[int]:
    """Draw `count` tokens in sequence from the distribution (0.5, 0.3, 0.2, 0)."""
    scores = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).log()
    draw = SeededDraw(1, seed, CPU)
    return [int(draw(torch.zeros(1, 1), scores).argmax()) for _ in range(count)]


def test_tokens_are_drawn_from_the_distribution() -> None:
    drawn = draws(4000, seed=0)
    frequencies = [drawn.count(token) / 4000 for token in range(4)]
    assert frequencies == pytest.approx([0.5, 0.3, 0.2, 0.0], abs=0.03)
    assert 3 not in drawn


def test_draws_are_reproducible_only_with_a_seed() -> None:
    assert draws(50, seed=1) == draws(50, seed=1)
    assert draws(50, seed=1) != draws(50, seed=2)
    assert draws(50, seed=None) != draws(50, seed=None)


def test_rows_are_drawn_independently() -> None:
    scores = torch.randn(1, 100)
    alone = SeededDraw(1, 5, CPU)(torch.zeros(1, 1), scores)
    among_others = SeededDraw(3, 5, CPU)(torch.zeros(3, 1), scores.repeat(3, 1))
    assert torch.equal(among_others[2], alone[0])


@pytest.fixture(scope="module")
def grammar(tiny_qwen3: Path) -> SchemaGrammar:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_qwen3)
    return SchemaGrammar(tokenizer, len(tokenizer), [tokenizer.eos_token_id])


def test_only_tokens_allowed_by_the_schema_have_finite_scores(
    grammar: SchemaGrammar, tiny_qwen3: Path
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_qwen3)
    matcher = grammar.matcher({"enum": ["red", "blue"]})
    constraint = SchemaConstraint([matcher, None])
    tokens = torch.zeros((2, 1), dtype=torch.long)
    text = ""
    for _ in range(10):
        scores = constraint(tokens, torch.randn(2, len(tokenizer)))
        assert torch.isfinite(scores[1]).all()  # the row without a schema is unchanged
        best = scores.argmax(dim=1, keepdim=True)
        if best[0] == tokenizer.eos_token_id:
            break
        text += tokenizer.decode(best[0])
        tokens = torch.cat([tokens, best], dim=1)
    assert json.loads(text) in ("red", "blue")


def test_a_schema_that_cannot_be_enforced_is_refused(grammar: SchemaGrammar) -> None:
    with pytest.raises(ValueError, match=r"(?i)unimplemented|unsupported|not supported|type"):
        grammar.matcher({"type": "no-such-type"})
