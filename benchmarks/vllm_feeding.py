"""Tokens a second of vLLM in this process: fed by our streams, chunk by chunk, and by vLLM itself.

Run from the repository root on a machine with a GPU and vLLM, with a folder or a name of a model:
`python -m benchmarks.vllm_feeding MODEL --engine '{"load_format": "dummy"}'`. Speed does not depend
on the weights, so random ones do. Descriptions of drawn people are rewritten. Lengths of answers
are planned, with the spread of real rewrites, and equal in all runs. A stream keeps the engine
full; chunk by chunk, it gets as many requests as it works on at once, and the next ones when all
are answered. `LLM.chat`, vLLM's own loop, takes all requests first and returns all answers last, so
that a killed run would lose them: it is the limit.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from threading import Event, Thread
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import elapsed
from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import View, draw_pose
from loupe.demo.worlds.people import draw_person_attributes
from loupe.models.chat import chat_messages
from loupe.models.vllm_chat import SharedEngine, VllmEngine
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import ChatFailure, ChatRequest
from loupe.schemas.profile import VllmChat
from loupe.schemas.records import Granularity
from loupe.sources.chance import Chance

MEDIAN_TOKENS, SPREAD = 110, 0.4
"""Lengths of answers: a log-normal distribution."""
SAMPLED_EVERY = 0.05
"""Seconds between two readings of NVML, whose figure is the share of a recent period."""


def requests(count: int) -> Iterator[ChatRequest]:
    """Requests to rewrite the descriptions of different drawn people."""
    prompt = load_prompt("rewrite_description")
    for number in range(count):
        chance = Chance("feeding", number)
        person = draw_person_attributes(chance)
        pose = draw_pose(chance, chance.pick(tuple(View)))
        text = describe(person, pose, Granularity.FINE, 0, chance)
        yield prompt.request("rewrite", {"description": text}, subject=str(number))


class PlannedEngine(VllmEngine):
    """Stops each answer at its planned length, as the weights may be random."""

    def __init__(self, spec: VllmChat, lengths: Sequence[int]) -> None:
        super().__init__(spec)
        self._lengths = lengths

    def _sampling(self, request: ChatRequest) -> Any:
        sampling = super()._sampling(request)
        sampling.max_tokens = self._lengths[int(request.subject)]
        sampling.ignore_eos = True
        return sampling

    def forget_prompts(self) -> None:
        """Clear the cache of prompts, which would make the next run faster."""
        self._llm.reset_prefix_cache()

    def answer_all(self, requests: Sequence[ChatRequest]) -> None:
        """Answer all requests with vLLM's own loop."""
        messages = [chat_messages(request) for request in requests]
        self._llm.chat(messages, [*map(self._sampling, requests)], use_tqdm=False)


@contextmanager
def watched_gpu() -> Iterator[list[float]]:
    """Yield a list that fills with readings of the share of time in which a kernel ran."""
    import torch

    readings: list[float] = []
    is_over = Event()

    def watch() -> None:
        while not is_over.wait(SAMPLED_EVERY):
            readings.append(torch.cuda.utilization() / 100)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield readings
    finally:
        is_over.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--revision", default="main")
    parser.add_argument("--engine", type=json.loads, default={}, help="vLLM's arguments, as JSON")
    parser.add_argument("--requests", type=int, default=2560)
    options = parser.parse_args()
    spec = VllmChat(
        provider="vllm",
        name=options.model,
        revision=options.revision,
        engine_arguments=options.engine,
    )
    chance = np.random.default_rng(0)
    lengths = chance.lognormal(np.log(MEDIAN_TOKENS), SPREAD, options.requests).astype(int) + 1
    engine = PlannedEngine(spec, lengths.tolist())
    shared = SharedEngine(engine, spec.max_in_flight)
    everything = [*requests(options.requests)]
    chunk = spec.max_in_flight

    def answer(some: Sequence[ChatRequest]) -> None:
        failed = [one.detail for _, one in shared.answer(some) if isinstance(one, ChatFailure)]
        if failed:
            raise RuntimeError(failed[0])

    def answer_chunks() -> None:
        for start in range(0, len(everything), chunk):
            answer(everything[start : start + chunk])

    answer(everything[:chunk])
    table = Table("", "tokens/s", "GPU busy", title=f"{len(everything)} answers, {chunk} at once")
    rates: dict[str, float] = {}
    for title, work in (
        ("chunk by chunk", answer_chunks),
        ("stream", lambda: answer(everything)),
        ("LLM.chat", lambda: engine.answer_all(everything)),
    ):
        engine.forget_prompts()
        with watched_gpu() as readings:
            rates[title] = lengths.sum() / elapsed(work)
        table.add_row(title, f"{rates[title]:,.0f}", f"{mean(readings):.0%}")
    Console().print(table)
    for title in ("chunk by chunk", "LLM.chat"):
        print(f"stream / {title}: {rates['stream'] / rates[title]:.2f}")
    engine.close()


if __name__ == "__main__":
    main()
