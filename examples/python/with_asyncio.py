"""The same in asyncio: ``litemq.aio`` has the names and arguments of ``litemq``, awaited."""

import asyncio

import litemq
from litemq import aio


async def main() -> None:
    """Send many messages at once, and consume them with coroutines."""
    arrived: asyncio.Queue[str] = asyncio.Queue()

    async def handle(message: litemq.Message) -> None:
        await asyncio.sleep(0.01)  # some other service
        await arrived.put(message.text())

    async with aio.Producer() as producer:
        await asyncio.gather(*(producer.send("greetings", f"hello {number}".encode()) for number in range(10)))
        future = producer.send_async("greetings", b"hello again")
        print("stored at offset", (await future).queue_offset)

    async with aio.PushConsumer("guests", {"greetings": "*"}, handle):
        greetings = sorted([await arrived.get() for _ in range(11)])
        print(*greetings, sep=", ")


asyncio.run(main())
