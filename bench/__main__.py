"""`python -m bench [--small] [NAME …]`: run the measurements and print a table."""

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Callable

from bench import measures, storage
from bench.budgets import measured_apart
from bench.client import client
from bench.debug import debug
from bench.peers import peers
from bench.politeness import politeness
from bench.rehearsal import rehearsal
from bench.server import server
from bench.watch_order import watch_order
from bench.webhooks import webhooks

# Name, unit, pods or operations in full and with --small. The first figure of each is kcr's.
MEASURES: dict[str, tuple[Callable[[int], dict[str, float]], str, int, int]] = {
    "decode": (measures.decode, "µs per pod", 20_000, 500),
    "throughput": (measures.throughput, "events per CPU second", 30_000, 500),
    "cached": (measures.cached, "bytes per cached pod", 20_000, 500),
    "queue": (measures.queue, "operations per CPU second", 500_000, 5_000),
    "stalls": (measures.stalls, "ms, the longest", 50_000, 500),
    "server": (server, "per CPU second", 10_000, 200),
    "creates": (storage.creates, "creates per CPU second", 20_000, 200),
    "stored": (storage.stored, "bytes per stored pod", 20_000, 200),
    "order": (watch_order, "of 100, and µs; HTTPS", 300, 20),
    "client": (client, "µs of CPU per request", 40_000, 400),
    "debug": (debug, "ms; keys in trouble", 1_000, 50),
    "webhooks": (lambda size: asyncio.run(webhooks(size)), "HTTPS, a process each", 20_000, 200),
    "politeness": (politeness, "kcr's Job controller, virtual time; pods", 500, 20),
    "rehearsal": (rehearsal, "Jobs and running pods, two hours, this kcr twice", 5_000, 50),
    "peers": (lambda size: asyncio.run(peers(size)), "one server, HTTPS", 10_000, 50),
}
# Measurements with options of their own, `python -m bench NAME --help`, and processes of their own.
PROGRAMS = {
    "jobs": "bench.jobs", "indexed": "bench.indexed", "cronjobs": "bench.cronjobs", "shards": "bench.shards",
    "size": "bench.size", "kcm": "bench.kcm", "memory": "bench.memory",
    "ports": "bench.ports",
}  # fmt: skip


def main() -> None:
    """Run the measurements that were asked for, each in a process of its own."""
    if sys.argv[1:2] and sys.argv[1] in PROGRAMS:
        importlib.import_module(PROGRAMS[sys.argv[1]]).main(sys.argv[2:])
        return
    known = (*MEASURES, *PROGRAMS)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; all by default")
    parser.add_argument("--small", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--here", type=int, metavar="SIZE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"there is no measurement {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.here is not None:
        print(json.dumps(MEASURES[options.names[0]][0](options.here)))
        return
    for name in options.names or known:
        if name in PROGRAMS:
            command = [sys.executable, "-m", "bench", name, *(["--small"] if options.small else [])]
            subprocess.run(command, check=True)
            continue
        _, unit, full, small = MEASURES[name]
        size = small if options.small else full
        print(f"{name} ({unit}, {size:,})", flush=True)
        figures = measured_apart(name, size)
        first = next(iter(figures.values()))
        for what, figure in figures.items():
            print(f"  {what:<34} {figure:>14,.1f}   {figure / first:8.3g} of the first", flush=True)


if __name__ == "__main__":
    main()
