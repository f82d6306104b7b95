"""Image searches as values: allowed settings, cache keys and costs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from loupe.schemas.chat import ModelRef
from loupe.schemas.image_search import (
    FolderSearch,
    GoogleSearch,
    ImageSearchSpec,
    OpenverseSearch,
    SearchPrices,
    SearchRequest,
)
from loupe.schemas.licences import permits_release

SPEC: TypeAdapter[Any] = TypeAdapter(ImageSearchSpec)
SERVICE = ModelRef(name="a", revision="1")


def test_the_provider_selects_the_search_service() -> None:
    assert isinstance(SPEC.validate_python({"provider": "google"}), GoogleSearch)
    assert isinstance(SPEC.validate_python({"provider": "openverse"}), OpenverseSearch)
    folder = SPEC.validate_python({"provider": "folder", "folder": "stills"})
    assert isinstance(folder, FolderSearch)
    assert folder.daily_budget is None


def test_invalid_search_settings_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"provider": "bing"},
        {"provider": "folder"},
        {"provider": "google", "rights": ["cc_nonderived"]},
        {"provider": "google", "rights": []},
        {"provider": "google", "image_size": "large"},
        {"provider": "google", "api_key": "AIza"},
        {"provider": "google", "api_key_variable": "AIza-a key"},
        {"provider": "openverse", "licences": ["by-nc-nd"]},
        {"provider": "openverse", "daily_budget": -1},
    ]
    for case, wrong in enumerate(cases):
        with subtests.test(case=case), pytest.raises(ValidationError):
            SPEC.validate_python(wrong)


def test_the_rights_filter_matches_the_licences(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[Any, ...], str, set[str]]] = [
        (
            ("cc_publicdomain", "cc_attribute", "cc_sharealike", "cc_noncommercial"),
            "(cc_nonderived)",
            {"CC0-1.0", "CC-PDM-1.0", "LicenseRef-Public-Domain"}
            | {"CC-BY", "CC-BY-SA", "CC-BY-NC", "CC-BY-NC-SA"},
        ),
        (("cc_attribute",), "(cc_noncommercial|cc_sharealike|cc_nonderived)", {"CC-BY"}),
        (
            ("cc_attribute", "cc_sharealike"),
            "(cc_noncommercial|cc_nonderived)",
            {"CC-BY", "CC-BY-SA"},
        ),
        (("cc_noncommercial",), "(cc_sharealike|cc_nonderived)", {"CC-BY-NC"}),
    ]
    for rights, left_out, licences in cases:
        with subtests.test(left_out=left_out):
            spec = GoogleSearch(provider="google", rights=rights)
            assert spec.rights_filter == f"({'|'.join(rights)}).-{left_out}"
            assert {*spec.licence.removeprefix("one of ").split(", ")} == licences
            assert permits_release(spec.licence)


def test_the_key_does_not_cover_budgets_retries_and_secrets() -> None:
    one = OpenverseSearch(provider="openverse", licences=("by", "cc0"))
    other = OpenverseSearch(
        provider="openverse",
        licences=("cc0", "by", "by"),
        daily_budget=3,
        max_retries=0,
        token_variable="MY_TOKEN",
    )
    assert one.parameters == other.parameters
    assert GoogleSearch(provider="google").parameters == {
        "rights": "(cc_publicdomain|cc_attribute|cc_sharealike|cc_noncommercial).-(cc_nonderived)",
        "image_size": None,
        "safe": "active",
    }


def test_different_searches_have_different_keys() -> None:
    requests = [
        SearchRequest(query="a", count=1),
        SearchRequest(query="b", count=1),
        SearchRequest(query="a", count=11),
        SearchRequest(query="a", count=1, page=11),
        SearchRequest(query="a1", count=1, page=1),
    ]
    keys = [request.key(SERVICE, {}) for request in requests]
    keys += [
        requests[0].key(SERVICE, {"x": 1}),
        requests[0].key(ModelRef(name="b", revision="1"), {}),
    ]
    assert len(set(keys)) == len(keys)


@given(
    st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.floats(0, 100, allow_nan=False)
)
def test_only_requests_beyond_the_free_ones_of_a_day_cost_money(
    first: int, second: int, free: int, per_thousand: float
) -> None:
    prices = SearchPrices(per_thousand=per_thousand, free_per_day=free)
    whole = max(0, first + second - free) * per_thousand / 1000
    assert prices.cost(first, 0) + prices.cost(second, first) == pytest.approx(whole)
