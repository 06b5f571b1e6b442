"""anyio beside Portico: its portal, and its processes.

python3 spec/bench/peer_anyio.py exec|portal|stream_64k BIN
"""

import statistics
import subprocess
import sys
import time

import anyio
from anyio.from_thread import start_blocking_portal

row, bin_dir = sys.argv[1:3]


def timed(count, fn):
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        fn()
        samples.append((time.perf_counter() - start) * 1e6)
    return statistics.median(samples)


async def nothing():
    pass


def portal():
    with start_blocking_portal() as p:
        return timed(3000, lambda: p.call(nothing))


async def run_true():
    result = await anyio.run_process(
        [bin_dir + "/true"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert result.returncode == 0


async def exec_async():
    samples = []
    for _ in range(200):
        start = time.perf_counter()
        await run_true()
        samples.append((time.perf_counter() - start) * 1e6)
    return statistics.median(samples)


async def stream_64k():
    total, count = 1 << 28, 0
    start = time.perf_counter()
    async with await anyio.open_process(
        [bin_dir + "/produce", "65536", str(total)]
    ) as process:
        async for chunk in process.stdout:
            count += len(chunk)
    assert count == total
    return count / (time.perf_counter() - start) / 1e6


if row == "portal":
    value = portal()
elif row == "exec":
    value = anyio.run(exec_async)
else:
    value = anyio.run(stream_64k)
print(f"{value:.3f}")
