"""`loupe check` on pairs given by a file or by options."""

import json
from pathlib import Path

from tests.flows.command_line import Loupe

SOURCE = "A woman in a white blouse and a red skirt."
REWRITES = {
    "She wears a red skirt with a white blouse.": "faithful",
    "She wears a blue skirt with a white blouse.": "suspect",
    "the description in your words": "rejected",
    "She has a handbag. " + "She has a handbag on her right hand. " * 4: "rejected",
}


def test_pairs_are_judged_in_their_order(loupe: Loupe, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"source": SOURCE, "rewrite": one, "id": 7}) for one in REWRITES)
    file.write_text("\n\n".join(lines))
    found = loupe("check", str(file), "--json").json
    assert [one["verdict"] for one in found] == list(REWRITES.values())
    assert [bool(one["findings"]) for one in found] == [False, True, True, True]
    assert found[3]["findings"][0]["change"] == "repetition"
    assert "1 faithful, 1 suspect, 2 rejected" in loupe("check", str(file)).err


def test_one_pair_is_given_by_options(loupe: Loupe) -> None:
    [found] = loupe("check", "--source", SOURCE, "--rewrite", "", "--json").json
    assert found == {
        "verdict": "rejected",
        "findings": [{"change": "empty", "message": "The rewrite holds no text."}],
    }


def test_an_error_names_the_line_that_is_not_a_pair(loupe: Loupe, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"source": "A man.", "rewrite": "A man."}\n{"source": "A man."}\n')
    ended = loupe("check", str(file))
    assert ended.exit_code == 2
    assert "line 2: rewrite is missing" in ended.err
    assert loupe("check", "--source", SOURCE).exit_code == 2


def test_texts_about_anything_are_judged_without_the_check_of_persons(loupe: Loupe) -> None:
    pair = ("--source", SOURCE, "--rewrite", "She wears a blue skirt with a white blouse.")
    [found] = loupe("check", *pair, "--checks", "form,support", "--json").json
    assert found["verdict"] == "faithful"
    assert "did you mean person?" in loupe("check", *pair, "--checks", "form,persn").err
