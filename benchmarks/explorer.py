"""What the explorer adds to the model's own time: a click, the first page and its weight, memory, eight people at once.

Everything is measured in one process against bare forward passes of the same text, taken in turns, because cores are
shared with others. A click is one POST to a running server over a kept connection.

    python -m benchmarks.explorer [--repeats 60]
"""

import argparse
import gc
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import combinations

import httpx
import numpy as np
import torch

from wherefrom.case.asking import Asker
from wherefrom.explorer.app import page_files
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.text_model import PassCount

TEXT = "A gorgeous, witty film, but the plot drags and the ending is a mess."
PEOPLE = 8
EACH = 40


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def resident() -> float:
    """Megabytes that this process holds now."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def first_page() -> tuple[float, float]:
    """Seconds from the start of the program until the page is answered, and of that answer alone."""
    program = (
        "from wherefrom.explorer.serve import ExplorerServer\n"
        "import time, urllib.request\n"
        "server = ExplorerServer(port=0); server.start(); started = time.perf_counter()\n"
        "for name in ('', 'style.css', 'main.js'): urllib.request.urlopen(server.address + name).read()\n"
        "print(time.perf_counter() - started, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        answered = float(running.stdout.readline())
        return time.perf_counter() - started, answered


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=60)
    repeats = arguments.parse_args().repeats
    torch.set_num_threads(1)
    print(f"{date.today()}, {platform.machine()}, torch {torch.__version__}, one thread, embedded model")

    whole, answered = first_page()
    weight = sum(len(file.content) for file in page_files().values())
    print(f"page: {weight / 1000:.0f} kB in {len(page_files())} files; answered in {1000 * answered:.0f} ms")
    print(f"    while torch is being imported; {whole:.1f} s after the program was started")

    server = ExplorerServer(port=0)
    server.start()
    server.shelf.ready.wait()
    service = server.shelf.service(0)
    model, encoding = service.model, service.encode(TEXT, None)
    inputs = model.batch([encoding])
    client = httpx.Client(base_url=server.address, timeout=600)
    units = len(client.post("/api/read", json={"text": TEXT}).json()["text"]["units"])
    choices = iter(combinations(range(units), 3))

    def forward() -> None:
        with torch.no_grad():
            model.logits(inputs, PassCount())

    def click() -> None:
        client.post("/api/hide", json={"text": TEXT, "hidden": next(choices)}).raise_for_status()

    for _ in range(5):
        forward()
        click()
    forwards, clicks = [], []
    for _ in range(repeats):
        forwards.append(seconds(forward))
        clicks.append(seconds(click))
    bare = statistics.median(forwards)
    for name, chosen in (("median", statistics.median), ("least", min)):
        one, two = chosen(clicks), chosen(forwards)
        own = 1000 * (one - 1.5 * two)
        print(
            f"click, {name}: {1000 * one:.1f} ms; a forward pass {1000 * two:.1f} ms; over 1.5 of them: {own:+.1f} ms"
        )

    gc.collect()
    before = resident()
    for _ in range(50):
        click()
    gc.collect()
    print(
        f"memory: 50 clicks more: {resident() - before:+.1f} MB of {before:.0f} MB; {len(service.answers)} answers kept"
    )

    texts = [TEXT.replace("mess", word) for word in ("mess", "joy", "bore", "fine", "treat", "chore", "gem", "slog")]
    rng = np.random.default_rng(0)
    hidden = [[sorted(rng.choice(units, 4, replace=False).tolist()) for _ in range(EACH)] for _ in range(PEOPLE)]

    def batched() -> None:
        """The same questions by one asker, all known beforehand, as many in a pass as there are people."""
        for turn in range(EACH):
            asker = Asker(model)
            for text, own in zip(texts, hidden, strict=True):
                read = service.encode(text, None)
                keep = np.ones((1, len(read)), dtype=bool)
                keep[0, [1 + place for place in own[turn] if place + 1 < len(read)]] = False
                asker.note(read, keep, "delete")
            asker.run()

    def person(number: int) -> None:
        with httpx.Client(base_url=server.address, timeout=600) as own:
            for places in hidden[number]:
                own.post("/api/hide", json={"text": texts[number], "hidden": places}).raise_for_status()

    def people() -> None:
        service.answers.clear()
        with ThreadPoolExecutor(PEOPLE) as pool:
            list(pool.map(person, range(PEOPLE)))

    people()
    batched()
    ratios = []
    for _ in range(5):
        together, alone = seconds(people), seconds(batched)
        ratios.append(alone / together)
    print(
        f"eight at once: {PEOPLE * EACH} clicks; throughput {statistics.median(ratios):.2f} of batched asking "
        f"(least {min(ratios):.2f}, most {max(ratios):.2f}); one forward {1000 * bare:.1f} ms"
    )
    server.stop()


if __name__ == "__main__":
    main()
