"""The example server under load on loopback: latency, throughput, and stops while it is asked.

    python -m reproduce.benchmarks.serving

`docs/examples/server.py` runs in a process of its own, on one core, and clients in this one on
another. Every client sends one row, waits for the answer and sends the next, over one connection.
Then the server is stopped again and again under that load. A request is lost if the server read it
and its client got no answer; what finds the door closed is counted apart, and may be sent again to
another server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pyro_gcm import load, save
from reproduce.arguments import positive_count
from reproduce.benchmarks.scoring import fitted_loans, loans

APP = Path(__file__).parents[2] / "docs" / "examples"
#: Seconds under load before a stop.
BEFORE_STOP = 0.5


@dataclass
class Told:
    """What clients saw: milliseconds of every answer, and how many there were of each kind."""

    milliseconds: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


class Server:
    """The example server in a process of its own."""

    def __init__(self, model: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.model = model

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(APP), "server:app"),
            *(*address, "--log-level", "warning"),
            env={**os.environ, "MODEL": str(self.model), "OMP_NUM_THREADS": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        _pin(self.process.pid, 0)
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                if self.process.returncode is not None:
                    raise RuntimeError("the server did not start") from None
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return

    async def stop(self) -> int:
        """Ask it to stop, and return how many requests it read, by its own count."""
        self.process.send_signal(signal.SIGTERM)
        told, _ = await self.process.communicate()
        return int(told.split()[-2])


async def client(port: int, body: bytes, told: Told, over: asyncio.Event) -> None:
    """Ask again and again until it is over or the door is closed."""
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    message = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        told.kinds["door closed"] += 1
        return
    with_answer = True
    while with_answer and not over.is_set():
        start = time.perf_counter()
        with_answer = await _asked(reader, writer, message, told)
        if with_answer:
            told.milliseconds.append(1e3 * (time.perf_counter() - start))
    writer.close()


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes, told: Told
) -> bool:
    """Send a request; whether it was answered, and the connection stays open."""
    try:
        writer.write(message)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
    except (OSError, asyncio.IncompleteReadError):
        told.kinds["door closed"] += 1
        return False
    good = head.startswith(b"HTTP/1.1 200") and "predictions" in json.loads(body)
    told.kinds["answered" if good else "refused"] += 1
    return b"connection: close" not in head.lower()


async def under_load(server: Server, body: bytes, clients: int, seconds: float) -> Told:
    """What the clients see in a time without stops."""
    told, over = Told(), asyncio.Event()
    tasks = [asyncio.create_task(client(server.port, body, told, over)) for _ in range(clients)]
    await asyncio.sleep(seconds)
    over.set()
    await asyncio.gather(*tasks)
    return told


async def stopped_under_load(server: Server, body: bytes, clients: int) -> tuple[Told, int]:
    """What the clients see of a stop, and how many requests the server read."""
    told, over = Told(), asyncio.Event()
    tasks = [asyncio.create_task(client(server.port, body, told, over)) for _ in range(clients)]
    await asyncio.sleep(BEFORE_STOP)
    read = await server.stop()
    await asyncio.gather(*tasks)
    return told, read


def _pin(process: int, core: int) -> None:
    """Bind a process to a core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(process, {cores[core % len(cores)]})


async def measure(model: Path, arguments: argparse.Namespace) -> None:
    """Print what was seen."""
    row = loans(1, seed=3).drop(columns="id").astype(object)
    body = json.dumps({"rows": row.where(row.notna(), None).to_dict("records")}).encode()
    server = Server(model)
    await server.start()
    for clients in arguments.clients:
        await under_load(server, body, clients, 0.5)  # the first calls are slower
        told = await under_load(server, body, clients, arguments.seconds)
        low, high = np.quantile(told.milliseconds, [0.5, 0.99])
        rate = told.kinds["answered"] / arguments.seconds
        print(
            f"{clients:3d} clients: {rate:7.0f} requests/s, p50 {low:6.1f} ms, p99 {high:6.1f} ms, "
            f"{told.kinds['refused']} refused"
        )
    await server.stop()
    read = got = closed = 0
    for _ in range(arguments.stops):
        await server.start()
        told, by_server = await stopped_under_load(server, body, arguments.clients[-1])
        read, got = read + by_server, got + told.kinds["answered"]
        closed += told.kinds["door closed"]
    print(
        f"{arguments.stops} stops under {arguments.clients[-1]} clients: the server read {read} "
        f"requests, clients got {got} answers, lost {read - got}; {closed} found the door closed"
    )


def main() -> None:
    """Print latency and throughput for some numbers of clients, and what stops lose."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=positive_count, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=positive_count, default=10)
    parser.add_argument("--stops", type=positive_count, default=50)
    arguments = parser.parse_args()
    _pin(0, 1)
    with tempfile.TemporaryDirectory() as place:
        model = save(fitted_loans(2_000), Path(place) / "model")
        load(model)
        asyncio.run(measure(model, arguments))


if __name__ == "__main__":
    main()
