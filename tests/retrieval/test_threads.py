"""Limiting the threads of matrix products."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from loupe.retrieval.similarity.products import products_in_their_own_thread


def numpy_threads() -> dict[str, int]:
    """Number of threads of the BLAS library of NumPy, ignoring libraries of other packages."""
    libraries: list[dict[str, Any]] = threadpool_info()
    return {
        one["filepath"]: one["num_threads"]
        for one in libraries
        if one["user_api"] == "blas" and "numpy" in one["filepath"]
    }


def test_products_use_one_thread_only_inside_the_context() -> None:
    np.eye(2) @ np.eye(2)
    before = numpy_threads()
    with products_in_their_own_thread():
        assert set(numpy_threads().values()) == {1}
    assert before
    assert numpy_threads() == before
