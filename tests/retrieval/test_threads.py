"""Who shares out the processors."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from retrieval.similarity.products import products_in_their_own_thread


def numpy_threads() -> dict[str, int]:
    """Threads of the library NumPy multiplies with; libraries loaded later are not its concern."""
    libraries: list[dict[str, Any]] = threadpool_info()
    return {
        one["filepath"]: one["num_threads"]
        for one in libraries
        if one["user_api"] == "blas" and "numpy" in one["filepath"]
    }


def test_products_stay_in_their_thread_and_only_there() -> None:
    np.eye(2) @ np.eye(2)
    before = numpy_threads()
    with products_in_their_own_thread():
        assert set(numpy_threads().values()) == {1}
    assert before
    assert numpy_threads() == before
