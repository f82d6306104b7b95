"""Who shares out the processors."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from retrieval.similarity.products import products_in_their_own_thread, usual_workers


def threads_of_products() -> dict[str, int]:
    libraries: list[dict[str, Any]] = threadpool_info()
    return {one["filepath"]: one["num_threads"] for one in libraries if one["user_api"] == "blas"}


def test_products_stay_in_their_thread_and_only_there() -> None:
    np.eye(2) @ np.eye(2)
    before = threads_of_products()
    with products_in_their_own_thread():
        assert set(threads_of_products().values()) == {1}
    assert before
    assert threads_of_products() == before


def test_there_is_a_worker() -> None:
    assert 1 <= usual_workers() <= 8
