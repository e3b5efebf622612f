"""docs/reference/clients.md: what is recorded, as a page."""

from collections.abc import Mapping
from pathlib import Path

from tests.clients.things import THINGS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"
# By name: the driver and its arguments, and the packages whose versions the page names.
CLIENTS: Mapping[str, tuple[list[str], list[str]]] = {
    "kcr": (["kcr_driver.py"], ["kcr"]),
    "kubernetes": (["official.py", "kubernetes"], ["kubernetes"]),
    "kubernetes.aio": (["official.py", "kubernetes.aio"], ["kubernetes"]),
    "kubernetes_asyncio": (["official.py", "kubernetes_asyncio"], ["kubernetes-asyncio"]),
    "kr8s": (["kr8s_driver.py"], ["kr8s"]),
    "lightkube": (["lightkube_driver.py"], ["lightkube", "lightkube-models"]),
    "kubesdk": (["kubesdk_driver.py"], ["kubesdk", "kube-models"]),
    "pykube-ng": (["pykube_driver.py"], ["pykube-ng"]),
    "cloudcoil": (["cloudcoil_driver.py"], ["cloudcoil", "cloudcoil-models-kubernetes"]),
    "hikaru": (["hikaru_driver.py"], ["hikaru-core", "hikaru-model-28"]),
    "kopf": (["kopf_driver.py"], ["kopf"]),
}


TEXT = """# Clients

Made from `tests/clients` by `make clients` on {date}: {count} clients, kcr first, each asked up to {things} things,
behind a proxy that plays expired tokens, ended watches and refusals. "Not asked" says that the driver has no call for
it, not that the client cannot do it.
"""
SPLIT = 6


def write_page(found: Mapping[str, Mapping[str, str]], versions: Mapping[str, str], date: str) -> None:
    """Write the page.

    Args:
        found: The words by client and thing.
        versions: Those of the packages.
        date: The day.
    """
    lines = [TEXT.format(date=date, count=len(found), things=len(THINGS)), "## Versions", ""]
    lines += ["| client | packages |", "|---|---|"]
    for name in found:
        lines.append(f"| {name} | {', '.join(f'{one} {versions[one]}' for one in CLIENTS[name][1])} |")
    names = list(found)
    for start in range(0, len(names), SPLIT):
        group = names[start : start + SPLIT]
        lines += ["", f"## {', '.join(group[:-1])} and {group[-1]}", "", f"| thing | {' | '.join(group)} |"]
        lines.append("|---" * (len(group) + 1) + "|")
        for name, thing in THINGS.items():
            lines.append(f"| {thing.title} | {' | '.join(found[client][name] for client in group)} |")
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
