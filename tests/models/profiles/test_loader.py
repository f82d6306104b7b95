"""Loading of profiles: shipped ones, those of users, overrides and errors."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from loupe.models.profiles.loader import load_profile, profile_names
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import OpenAIChat

NOTHING: dict[str, str] = {}
OWN = """
description = "ours"
[rewrite]
models = [{ provider = "openai", name = "m", revision = "1", base_url = "http://127.0.0.1:1/v1" }]
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_a_shipped_profile_has_two_rewriters_and_embedders(subtests: pytest.Subtests) -> None:
    for name in profile_names():
        with subtests.test(name=name):
            profile = load_profile(name, NOTHING)
            assert profile.name == name
            assert profile.description
            assert len({str(model.ref) for model in profile.rewrite.models}) == 2
            embedders = profile.evaluation.embedders
            assert len({str(one.ref) for one in embedders}) == len(embedders) > 0
            assert ({one.provider for one in embedders} == {"builtin"}) is (name == "builtin")


def test_the_first_chat_model_that_rewrites_judges_unless_it_is_turned_off(own: Path) -> None:
    first = load_profile(str(own), NOTHING)
    assert first.judge is not None
    (rewriter,) = first.rewrite.models
    assert first.judge.model.ref == rewriter.ref
    assert first.judge.model.sampling.temperature == 0
    assert load_profile(str(own), {"LOUPE_PROFILE__JUDGE": "false"}).judge is None
    other = load_profile(str(own), {"LOUPE_PROFILE__JUDGE__PROMPT": "own.md"})
    assert other.judge is not None
    assert (other.judge.prompt, other.judge.model.ref) == ("own.md", rewriter.ref)
    assert load_profile("builtin", NOTHING).judge is None
    with pytest.raises(ConfigurationError, match=r"judge of profile 'builtin': model is missing"):
        load_profile("builtin", {"LOUPE_PROFILE__JUDGE__PROMPT": "own.md"})


def test_the_hosted_profile_needs_only_one_key_and_one_address() -> None:
    variables = {"LOUPE_PROFILE__SERVER__BASE_URL": "http://127.0.0.1:1/v1"}
    profile = load_profile("hosted", variables)
    contrast = profile.contrast
    writers = (
        *profile.rewrite.models,
        *profile.describe.models,
        *([profile.judge.model] if profile.judge else []),
        profile.captioning.model,
        contrast.strategist,
        contrast.refiner,
    )
    hosted_models = [one for one in writers if isinstance(one, OpenAIChat)]
    assert len(hosted_models) == len(writers) == 7
    assert {one.base_url for one in hosted_models} == {"http://127.0.0.1:1/v1"}
    assert {one.api_key_variable for one in hosted_models} == {"OPENAI_API_KEY"}
    assert all(one.prices for one in hosted_models)
    assert "temperature" not in hosted_models[1].parameters


def test_a_key_is_not_sent_unencrypted_to_another_machine(subtests: pytest.Subtests) -> None:
    private = ("https://models.org/v1", "http://localhost:8000/v1", "http://[::1]/v1")
    public = (
        "http://models.org/v1",
        "http://192.168.1.5:8000/v1",
        "http://127.0.0.1.models.org/v1",
        "http://localhost@models.org/v1",
        "http://127.0.0.1:8000@models.org/v1",
        "http://127.0.0.1\\@models.org/v1",
        "http://0.0.0.0:8000/v1",
    )
    for address in (*private, *public):
        with subtests.test(address=address):
            variables = {"LOUPE_PROFILE__SERVER__BASE_URL": address}
            if address in private:
                load_profile("hosted", variables)
                continue
            is_named = "@" in address  # a name that looks like this machine
            why = "must not hold a name" if is_named else "OPENAI_API_KEY must not be sent unenc"
            with pytest.raises(ConfigurationError, match=why):
                load_profile("hosted", variables)


def test_another_name_of_the_server_inherits_neither_revision_nor_prices() -> None:
    variables = {
        "LOUPE_PROFILE__SERVER__BASE_URL": "https://other.example/v1",
        "LOUPE_PROFILE__SERVER__NAME": "vendor/model",
    }
    profile = load_profile("hosted", variables)
    contrast = profile.contrast
    models = [*profile.rewrite.models, profile.captioning.model, contrast.strategist]
    assert {(one.name, one.revision, one.prices) for one in models} == {
        ("vendor/model", "unstated", None)
    }
    stated = {
        **variables,
        "LOUPE_PROFILE__SERVER__PRICES": '{"input_per_million": 1, "output_per_million": 2}',
    }
    (rewriter,) = load_profile("hosted", stated).rewrite.models
    assert rewriter.prices is not None
    assert rewriter.prices.input_per_million == 1


def test_a_model_of_another_name_inherits_only_what_the_server_needs(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'description = "two"\n[server]\nname = "a"\nrevision = "1"\n'
        'prices = { input_per_million = 1, output_per_million = 2 }\nbase_url = "http://127.0.0.1:1/v1"\n'
        '[[rewrite.models]]\nprovider = "openai"\n'
        '[[rewrite.models]]\nprovider = "openai"\nname = "b"\nrevision = "2"\n'
    )
    first, second = load_profile(str(path), NOTHING).rewrite.models
    assert (str(first.ref), str(second.ref)) == ("a@1", "b@2")
    assert first.prices is not None
    assert second.prices is None
    path.write_text(path.read_text().replace('revision = "2"\n', ""))
    with pytest.raises(ConfigurationError, match="revision is missing"):
        load_profile(str(path), NOTHING)


def changed_keys(value: BaseModel, path: str = "") -> Iterator[str]:
    """Yield the keys below `value`, models aside, that differ from their defaults."""
    for name, field in type(value).model_fields.items():
        own = getattr(value, name)
        if isinstance(own, tuple) or hasattr(own, "provider"):
            continue
        if isinstance(own, BaseModel):
            yield from changed_keys(own, f"{path}{name}.")
        elif own != field.get_default(call_default_factory=True):
            yield f"{path}{name}"


def test_the_page_names_every_default_that_a_profile_changes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "profiles.md").read_text(encoding="utf-8")
    _, _, section = page.partition("### Defaults that a profile changes")
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", section.partition("## Write")[0]))
    changed: set[str] = set()
    for name in profile_names():
        changed.update(changed_keys(load_profile(name, NOTHING)))
    assert named == changed - {"name", "description"}


def test_the_paper_profile_names_the_models_of_the_paper() -> None:
    names = [model.name for model in load_profile("paper", NOTHING).rewrite.models]
    assert names == ["Qwen/Qwen-14B-Chat", "meta-llama/Llama-2-70b-chat-hf"]


def test_the_environment_overrides_tables_missing_from_the_file(own: Path) -> None:
    variables = {
        "LOUPE_PROFILE__FAITHFULNESS__STRICT": "true",
        "LOUPE_PROFILE__FAITHFULNESS__LANGUAGE": "de",
        "LOUPE_PROFILE": "builtin",
        "PATH": "x",
    }
    faithfulness = load_profile(str(own), variables).faithfulness
    assert faithfulness.strict
    assert faithfulness.language == "de"


def test_the_environment_overrides_whole_lists() -> None:
    models = '[{"provider": "builtin", "name": "one"}]'
    profile = load_profile("builtin", {"LOUPE_PROFILE__REWRITE__MODELS": models})
    assert [model.name for model in profile.rewrite.models] == ["one"]


def test_an_invalid_key_is_named(subtests: pytest.Subtests, own: Path) -> None:
    cases: list[tuple[str, str, str]] = [
        (
            'description = "ours"',
            'descripton = "ours"',
            "unknown key 'descripton'; did you mean 'description'",
        ),
        ('description = "ours"', 'description = "ours"\ncolour = 1', "unknown key 'colour'"),
        ("[rewrite]", "[rewrite]\ntemprature = 1", r"unknown key 'rewrite\.temprature'"),
        (
            '"openai"',
            '"opnai"',
            r"rewrite\.models\.0\.provider: there is no 'opnai'; did you mean openai",
        ),
        (
            'name = "m"',
            'nam = "m"',
            r"unknown key 'rewrite\.models.*did you mean 'name'",
        ),
        ("models = [", "models = [] #", r"rewrite\.models: .* at least 1 item"),
        ("[rewrite]", "[rewrite", "is not valid TOML"),
    ]
    for old, new, sentence in cases:
        with subtests.test(old=old, new=new, sentence=sentence):
            own.write_text(OWN.replace(old, new), encoding="utf-8")
            with pytest.raises(ConfigurationError, match=sentence) as raised:
                load_profile(str(own), NOTHING)
            assert "own" in str(raised.value)


def test_two_models_with_the_same_name_are_refused(own: Path) -> None:
    model = OWN.split("[", 2)[2].split("]")[0]
    own.write_text(OWN.replace(model, f"{model.rstrip()}, {model.strip()}"), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="must differ in name or revision"):
        load_profile(str(own), NOTHING)


def test_an_override_through_a_list_names_the_variable(own: Path) -> None:
    variable = "LOUPE_PROFILE__REWRITE__MODELS__NAME"
    with pytest.raises(ConfigurationError, match=f"{variable} goes through 'models'"):
        load_profile(str(own), {variable: "x"})


def test_a_missing_profile_is_named_with_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no profile 'papr', .*; did you mean paper"):
        load_profile("papr", NOTHING)
    with pytest.raises(ConfigurationError, match=r"no profile '.*none\.toml'"):
        load_profile(str(tmp_path / "none.toml"), NOTHING)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(
        ConfigurationError, match=r"folder\.toml' cannot be read: it is a directory"
    ):
        load_profile(str(tmp_path / "folder.toml"), NOTHING)


def test_a_secret_in_a_profile_is_refused_and_not_shown(own: Path) -> None:
    own.write_text(OWN.replace("name =", 'api_key = "hunter2", name ='), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="api_key") as raised:
        load_profile(str(own), NOTHING)
    assert "hunter2" not in str(raised.value)
