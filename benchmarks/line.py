"""A line of a given speed: an HTTP proxy that tunnels (``CONNECT``) and passes on so many bits per second in all."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Final

_PIECE: Final = 16 << 10  # bytes passed on at a time
_LATE: Final = 0.05  # seconds that a sleep may take longer, which the next ones make up for


class _Line:
    """All connections share the speed of the line, in bytes per second, towards the client."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._free = 0.0  # when the line has passed on everything, by the clock of the loop

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        with contextlib.closing(writer):
            method, target, _ = (await reader.readuntil(b"\r\n\r\n")).split(maxsplit=2)
            host, _, port = target.decode().rpartition(":")
            if method != b"CONNECT":
                writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
                return
            from_server, to_server = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with contextlib.closing(to_server), contextlib.suppress(ConnectionError):
                up = asyncio.create_task(_copy(reader, to_server))
                while piece := await from_server.read(_PIECE):
                    await self._wait(len(piece))
                    writer.write(piece)
                    await writer.drain()
                up.cancel()

    async def _wait(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now - _LATE) + size / self._speed
        await asyncio.sleep(self._free - now)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()


@contextlib.contextmanager
def line(megabits: float) -> Iterator[str]:
    """Run the proxy, in a thread.

    :param megabits: the speed, in Mbit/s
    :returns: its URL, for ``HTTPS_PROXY``
    """
    ports: queue.Queue[int] = queue.Queue()
    stopping: list[Callable[[], object]] = []

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        server = await asyncio.start_server(_Line(megabits * 1e6 / 8).serve, "127.0.0.1", 0)
        stopping.append(lambda: loop.call_soon_threadsafe(stop.set))
        ports.put(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield f"http://127.0.0.1:{ports.get()}"
    finally:
        stopping[0]()
        thread.join()
