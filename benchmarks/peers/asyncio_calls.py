"""Chat requests sent by plain asyncio and httpx, which keeps nothing; in a separate environment.

python asyncio_calls.py BASE_URL REQUESTS
"""

import asyncio
import sys

import httpx

_IN_FLIGHT = 32
_ATTEMPTS = 6


async def main(url: str, count: int) -> None:
    """Send the requests, and repeat those that fail."""
    room = asyncio.Semaphore(_IN_FLIGHT)
    async with httpx.AsyncClient(timeout=60) as client:

        async def ask(number: int) -> str:
            message = {"role": "user", "content": f"Rewrite caption number {number}. " * 40}
            async with room:
                for _ in range(_ATTEMPTS):
                    body = {"model": "m", "messages": [message]}
                    answer = await client.post(f"{url}/chat/completions", json=body)
                    if answer.status_code == httpx.codes.OK:
                        return str(answer.json()["choices"][0]["message"]["content"])
            raise SystemExit(f"no answer to request {number}")

        await asyncio.gather(*(ask(number) for number in range(count)))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
