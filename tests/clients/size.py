"""`python -m tests.clients.size`: what a list and a watch of many ConfigMaps of 4 KB cost each client, for the page."""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from kcr.clock import SystemClock
from tests.clients.__main__ import FOLDER, PYTHON, Server, kcr_dev, served
from tests.clients.page import PAGE, SIZE

OBJECTS = 50_000
BYTES = 4_000
WRITERS = 16
SECONDS = 300.0
CLIENTS = (
    "kcr", "kubernetes", "kubernetes.aio", "kubernetes_asyncio", "kr8s", "lightkube", "kubesdk", "pykube-ng",
    "cloudcoil", "hikaru",
)  # fmt: skip
TEXT = """
`python -m tests.clients.size` on {date}, {cores} cores with other work, Python {python}, versions as above: {objects:,}
ConfigMaps of 4 KB ({raw:,.0f} MB of JSON) on `kcr dev`, listed and held, and a watch that begins with all.
Seconds are the client's CPU; memory is what was added at the peak. kcr's watch is an informer,
which keeps the objects.

| client | list | memory | of the JSON | watch | memory |
|---|---|---|---|---|---|
"""


async def fill(server: Server, objects: int) -> None:
    """Create the ConfigMaps."""
    numbers = iter(range(objects))

    async def write() -> None:
        for number in numbers:
            # No two are alike: some clients keep equal texts once.
            text = f"{number:08}" * (BYTES // 8)
            body = {"metadata": {"name": f"many-{number}"}, "data": {"text": text}}
            await server.send("POST", "api/v1/namespaces/default/configmaps", body)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(write())


def measured(client: str, what: str, objects: int, kubeconfig: Path) -> dict[str, float] | str:
    """Run a driver; return its figures, or why there are none."""
    python = sys.executable if client == "kcr" else PYTHON
    command = [python, str(FOLDER / "drivers" / "size_driver.py"), client, what, str(objects)]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return f"not within {SECONDS:.0f} s"
    if ran.returncode:
        return ran.stderr.strip().splitlines()[-1][:100]
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def row(client: str, listed: dict[str, float] | str, watched: dict[str, float] | str, raw: float) -> str:
    """Return a row of the table."""
    cells = [client]
    if isinstance(listed, str):
        cells += [listed, "", ""]
    else:
        added = listed["peak"] - listed["before"]
        cells += [f"{listed['cpu']:.1f} s", f"{added:,.0f} MB", f"{added / raw:.1f}"]
    if isinstance(watched, str):
        cells += [watched, ""]
    else:
        added = watched["peak"] - watched["before"]
        cells += [f"{watched['cpu']:.1f} s", f"{added:,.0f} MB"]
    return f"| {' | '.join(cells)} |"


async def main(objects: int, clients: list[str]) -> None:
    """Fill, measure, and write the section."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="kcr-clients-") as name, kcr_dev(Path(name)) as kubeconfig:
        async with served("kcr dev", kubeconfig, kubeconfig.read_text(), has_nodes=True) as server:
            await fill(server, objects)
            async with server.session.get(f"{server.url}/api/v1/configmaps") as answer:
                raw = sum([len(chunk) async for chunk, _ in answer.content.iter_chunks()]) / 1024**2
        print(f"{raw:,.0f} MB of JSON", flush=True)
        for client in clients:
            listed, watched = (measured(client, what, objects, kubeconfig) for what in ("list", "watch"))
            print(client, listed, watched, flush=True)
            rows.append(row(client, listed, watched, raw))
    date, python = SystemClock().now().date().isoformat(), platform.python_version()
    text = TEXT.format(date=date, cores=os.cpu_count(), python=python, objects=objects, raw=raw)
    page, _, _ = PAGE.read_text(encoding="utf-8").partition(SIZE)
    if clients == list(CLIENTS):
        PAGE.write_text(page + SIZE + text + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.objects, chosen.client or list(CLIENTS)))
