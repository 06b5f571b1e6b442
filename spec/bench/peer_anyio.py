"""anyio beside Portico: its portal, and its processes.

python3 spec/bench/peer_anyio.py exec|portal|stream_64k|task_... BIN
"""

import resource
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


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


async def task_memory():
    async with anyio.create_task_group() as group:
        before = resident_kib()
        for _ in range(10000):
            group.start_soon(anyio.sleep, 1)
        await anyio.sleep(0.5)
        return (resident_kib() - before) / 10000


async def task_wake():
    times = []

    async def body():
        await anyio.sleep(0)
        times.append(time.perf_counter())
        await anyio.sleep(0)
        times.append(time.perf_counter())

    async with anyio.create_task_group() as group:
        for _ in range(10000):
            group.start_soon(body)
    return (max(times) - min(times)) * 1e6 / 20000


async def task_sleepers():
    due = time.perf_counter() + 2
    woken = []

    async def body():
        await anyio.sleep(max(0, due - time.perf_counter()))
        woken.append(time.perf_counter())

    async with anyio.create_task_group() as group:
        for _ in range(10000):
            group.start_soon(body)
    return (max(woken) - due) * 1e6 / 10000


async def task_commands():
    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(1000):
            group.start_soon(run_true)
    return (time.perf_counter() - start) * 1e3


async def task_nested():
    """What a wait costs for each generator that it is passed on through."""
    levels, count = 4, 20000

    async def waits():
        for _ in range(count):
            await anyio.sleep(0)
            yield

    async def through(level):
        source = through(level - 1) if level else waits()
        async for value in source:
            yield value

    async def nanoseconds(level):
        samples = []
        for _ in range(5):
            start = time.process_time_ns()
            async for _ in through(level):
                pass
            samples.append(time.process_time_ns() - start)
        return statistics.median(samples)

    plain = await nanoseconds(0)
    return (await nanoseconds(levels) - plain) / count / levels


rows = {
    "exec": exec_async,
    "task_nested": task_nested,
    "task_memory": task_memory,
    "task_wake": task_wake,
    "task_sleepers": task_sleepers,
    "task_commands": task_commands,
}
if row == "portal":
    value = portal()
elif row in rows:
    value = anyio.run(rows[row])
else:
    value = anyio.run(stream_64k)
print(f"{value:.3f}")
