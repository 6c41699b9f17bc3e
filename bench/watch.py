"""A great many people who watch the live stream: `python -m bench.watch ADDRESS HEADERS COUNT`."""

import asyncio
import json
import sys

from aiohttp import ClientSession, ClientTimeout, TCPConnector


async def watch(client: ClientSession, url: str, opened: asyncio.Semaphore) -> None:
    """Read one stream to its end."""
    async with client.get(url) as answer:
        answer.raise_for_status()
        opened.release()
        async for _ in answer.content:
            pass


async def main(address: str, headers: dict[str, str], count: int) -> None:
    """Open the streams and say so."""
    opened = asyncio.Semaphore(0)
    async with ClientSession(headers=headers, connector=TCPConnector(limit=0), timeout=ClientTimeout(None)) as client:
        watching = [asyncio.create_task(watch(client, f"{address}/api/admin/stream", opened)) for _ in range(count)]
        for _ in watching:
            await opened.acquire()
        print("ready", flush=True)
        await asyncio.gather(*watching)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))
