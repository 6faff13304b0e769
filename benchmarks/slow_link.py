"""A TCP proxy on loopback that lets bytes through at a given rate, each way, and delivers them later."""

import asyncio

_PIECE = 16 * 1024


def slow_link(listen: int, target: int, mbit: float, delay: float) -> None:
    """Serve 127.0.0.1:listen, forwarding to 127.0.0.1:target, until terminated."""
    asyncio.run(_serve(listen, target, 1e6 * mbit / 8, delay))


async def _serve(listen: int, target: int, rate: float, delay: float) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_forward(reader, far_writer, rate, delay), _forward(far_reader, writer, rate, delay))

    server = await asyncio.start_server(connect, "127.0.0.1", listen, limit=_PIECE)
    await server.serve_forever()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float, delay: float) -> None:
    """One direction: bytes leave at `rate` and arrive `delay` seconds after they left."""
    loop = asyncio.get_running_loop()
    flying: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=max(4, int(rate * (delay + 0.1) / _PIECE)))

    async def depart() -> None:
        free = loop.time()
        while data := await reader.read(_PIECE):
            free = max(free, loop.time()) + len(data) / rate
            await flying.put((free + delay, data))
        await flying.put((loop.time() + delay, b""))

    async def arrive() -> None:
        while True:
            when, data = await flying.get()
            await asyncio.sleep(max(0.0, when - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    try:
        await asyncio.gather(depart(), arrive())
    except (ConnectionError, OSError):
        writer.close()
