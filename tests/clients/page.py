"""docs/reference/clients.md: what is recorded, as a page."""

from collections.abc import Mapping
from pathlib import Path

from tests.clients.things import THINGS

NOT_ASKED = "not asked"
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
    "client-node": (["client_node.mjs"], ["@kubernetes/client-node"]),
    "fluent-client": (["fluent_client.mjs"], ["kubernetes-fluent-client"]),
}


TEXT = """# Clients

Made from `tests/clients` by `make clients` on {date}: {count} clients, kcr first, each asked up to {things} things,
behind a proxy that plays expired tokens, ended watches and refusals. A client is left out where its driver has no call
for the thing, which does not mean that the client has none.
"""
SIZE = "\n## Size\n"


def write_page(found: Mapping[str, Mapping[str, str]], versions: Mapping[str, str], manifests: str, date: str) -> None:
    """Write the page, and keep its section of sizes, which `bench clients` measures.

    Args:
        found: The words by client and thing.
        versions: Those of the packages.
        manifests: What happened to the manifests of cdk8s.
        date: The day.
    """
    lines = [TEXT.format(date=date, count=len(found), things=len(THINGS)), "## Versions", ""]
    for name in found:
        lines.append(f"- {name}: {', '.join(f'{one} {versions[one]}' for one in CLIENTS[name][1])}")
    lines += ["", "## Things", "", "| thing | what the clients do |", "|---|---|"]
    lines += [f"| {thing.title} | {grouped(name, found)} |" for name, thing in THINGS.items()]
    lines += ["", "## cdk8s", "", manifests]
    _, size, kept = PAGE.read_text(encoding="utf-8").partition(SIZE)
    PAGE.write_text("\n".join(lines) + "\n" + size + kept, encoding="utf-8")


def grouped(thing: str, found: Mapping[str, Mapping[str, str]]) -> str:
    """Return who does what, the outcome of kcr first."""
    names: dict[str, list[str]] = {}
    for client, words in found.items():
        if words[thing] != NOT_ASKED:
            names.setdefault(words[thing], []).append(client)
    return "; ".join(f"**{words}**: {', '.join(clients)}" for words, clients in names.items())
