"""Chat requests sent by distilabel, which keeps the answers; in a separate environment.

python distilabel_calls.py BASE_URL REQUESTS
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

from distilabel.models import OpenAILLM
from distilabel.pipeline import Pipeline
from distilabel.steps.tasks import TextGeneration

_ATTEMPTS = 6
_AT_ONCE = 32


def main(url: str, count: int) -> None:
    """Send the requests in batches; the client repeats those that fail."""
    prompts = [f"Rewrite caption number {number}. " * 40 for number in range(count)]
    with Pipeline(name="calls", cache_dir=".") as pipeline:
        llm = OpenAILLM(model="m", base_url=url, api_key="none", max_retries=_ATTEMPTS)
        TextGeneration(name="rewrite", llm=llm, input_batch_size=_AT_ONCE)
    rows = [{"instruction": one} for one in prompts]
    made = pipeline.run(dataset=rows, use_cache=False)["default"]["train"]
    if any(one is None for one in made["generation"]) or len(made) != count:
        raise SystemExit("not all requests were answered")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
