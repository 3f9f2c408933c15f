"""What the explorer adds to the model's own time: a click, the first page and its weight, memory, eight people at once.

Everything is measured in one process against bare forward passes of the same text, taken in turns, because cores are
shared with others. A click is one POST to a running server over a kept connection.

    python -m benchmarks.explorer [--repeats 60]
"""

import argparse
import gc
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from itertools import combinations

import httpx
import numpy as np
import torch
import transformers

from wherefrom.case.asking import Asker
from wherefrom.explorer.app import page_files
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.explorer.sheet import PageUnits
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount

TEXT = "A gorgeous, witty film, but the plot drags and the ending is a mess."
# Eight people in a process of their own, each with a connection that stays open.
CROWD = """
import http.client, json, sys
from concurrent.futures import ThreadPoolExecutor
port, questions = int(sys.argv[1]), json.loads(sys.argv[2])
def person(own):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for question in own:
        connection.request("POST", "/api/hide", json.dumps(question), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    connection.close()
with ThreadPoolExecutor(len(questions)) as pool:
    for line in sys.stdin:
        list(pool.map(person, questions))
        print("done", flush=True)
"""


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
        "server = ExplorerServer(port=0, patience=1.5); server.start(); started = time.perf_counter()\n"
        "for name in ('', 'style.css', 'main.js', 'dom.js', 'api.js', 'state.js', 'api/state'):\n"
        "    urllib.request.urlopen(server.address + name).read()\n"
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
    print(f"    {whole:.1f} s after the program was started, before torch is imported")

    server = ExplorerServer(port=0)
    server.start()
    server.shelf.ready.wait()
    service = server.shelf.service(0)
    model, encoding = service.model, service.encode(TEXT, None)
    inputs = inputs_of(model.network, [encoding])
    client = httpx.Client(base_url=server.address, timeout=600)
    units = len(client.post("/api/read", json={"text": TEXT}).json()["text"]["units"])
    choices = iter(combinations(range(units), 3))

    def forward() -> None:
        with torch.no_grad():
            model.run(inputs, PassCount())

    def click() -> float:
        """Seconds that the server says it took: until the first byte of the answer is handed on."""
        answer = client.post("/api/hide", json={"text": TEXT, "hidden": next(choices)}).raise_for_status()
        return float(answer.headers["server-timing"].partition("dur=")[2]) / 1000

    for _ in range(5):
        forward()
        click()
    forwards, clicks = [], []
    for _ in range(repeats):
        forwards.append(seconds(forward))
        clicks.append(click())
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

    crowd("embedded", server, 40)
    server.stop()
    # As large as BERT-base, with random weights: throughput depends on how long a pass takes beside a request.
    large = transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=len(model.reading.tokenizer))
    ).eval()
    server = ExplorerServer([(large, model.reading.tokenizer)], port=0)
    server.start()
    server.shelf.ready.wait()
    crowd("as large as BERT-base", server, 12)
    server.stop()


def crowd(name: str, server: ExplorerServer, each: int) -> None:
    """Eight people at once, beside the same questions asked by one asker."""
    service = server.shelf.service(0)
    texts = [TEXT.replace("mess", word) for word in ("mess", "joy", "bore", "fine", "treat", "chore", "gem", "slog")]
    rng = np.random.default_rng(0)
    units = len(PageUnits(service.encode(TEXT, None), "word").groups)
    hidden = [[sorted(rng.choice(units, 4, replace=False).tolist()) for _ in range(each)] for _ in texts]

    def batched() -> None:
        """All known beforehand, as many in a pass as there are people."""
        for turn in range(each):
            asker = Asker(service.model)
            for text, own in zip(texts, hidden, strict=True):
                read = service.encode(text, None)
                keep = np.ones((1, len(read)), dtype=bool)
                keep[0, PageUnits(read, "word").tokens(own[turn])] = False
                asker.note(read, keep, "delete")
            asker.run()

    asked = json.dumps(
        [[{"text": text, "hidden": one} for one in own] for text, own in zip(texts, hidden, strict=True)]
    )
    running = subprocess.Popen(
        [sys.executable, "-c", CROWD, str(server.port), asked], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def people() -> None:
        """Each asks the next question when the last one is answered; all in another process, as browsers are."""
        service.answers.clear()
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("go\n")
        running.stdin.flush()
        assert running.stdout.readline() == "done\n"

    people()
    batched()
    ratios = []
    for _ in range(3):
        together, alone = seconds(people), seconds(batched)
        ratios.append(alone / together)
    running.terminate()
    running.communicate()
    print(
        f"eight at once, {name}: {len(texts) * each} clicks; {statistics.median(ratios):.2f} of batched asking's"
        f" throughput (least {min(ratios):.2f}, most {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
