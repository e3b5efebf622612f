"""Bills of materials in the form of CycloneDX 1.6: of the wheels, and of the packages of the image."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.audit import closure, stated_licence
from tools.release.build import sha256

_NAMESPACE = UUID("6f2b1c2e-7d0e-5d0c-9c5e-0c9b3b1f4a11")
# A package of a lock: its name, its version, and the lines of its hashes.
_LOCKED = re.compile(r"^([\w.-]+)==([^\s;\\]+)[^\n]*\\\n((?: {4}--hash=sha256:\w+(?: \\)?\n)+)", re.MULTILINE)


def bill_of_wheel(wheel: Path, epoch: int) -> bytes:
    """Return the bill of a wheel: what it needs, in the versions of this environment, with which it was tested."""
    name, version, *_ = wheel.stem.split("-")
    own = canonicalize_name(name)
    packages = {found: package for found, package in closure(own).items() if found != own}
    subject = {**_component(own, version), "hashes": [{"alg": "SHA-256", "content": sha256(wheel)}]}
    parts = [_installed(found, package, version) for found, package in sorted(packages.items())]
    refs = {part["name"]: part["bom-ref"] for part in (subject, *parts)}
    needs = {found: _needs(package, refs) for found, package in closure(own).items()}
    graph = [{"ref": refs[found], "dependsOn": needs[found]} for found in sorted(needs)]
    return _bill(subject, parts, epoch, graph)


def bill_of_lock(lock: str, name: str, version: str, epoch: int) -> bytes:
    """Return the bill of what a lock pins, with the hashes that it accepts.

    Args:
        lock: The text of the lock.
        name: The name of what is built from it.
        version: Its version.
        epoch: The time of the bill.
    """
    subject = {"type": "container", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    parts = []
    for found, pinned, lines in _LOCKED.findall(lock):
        hashes = [{"alg": "SHA-256", "content": one} for one in re.findall(r"sha256:(\w+)", lines)]
        parts.append({**_component(found, pinned), "hashes": hashes})
    return _bill(subject, parts, epoch, [{"ref": subject["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}])


def licences(packages: Mapping[str, Distribution]) -> str:
    """Return a line for each package: its name, its version and its licence."""
    return "".join(f"{name} {found.version}: {stated_licence(found)}\n" for name, found in sorted(packages.items()))


def _bill(
    subject: Mapping[str, Any], parts: Iterable[Mapping[str, Any]], epoch: int, graph: list[dict[str, Any]]
) -> bytes:
    made = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    contents = {"metadata": {"timestamp": made, "component": subject}, "components": [*parts], "dependencies": graph}
    # The number of a bill is drawn from what it says: the same bill has the same one.
    number = uuid5(_NAMESPACE, msgspec.json.encode(contents).decode())
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1}
    return msgspec.json.format(msgspec.json.encode({**head, **contents}), indent=2) + b"\n"


def _component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{canonicalize_name(name)}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _installed(name: str, package: Distribution, version: str) -> dict[str, Any]:
    # The two distributions have the same version; the installed one may be that of the last release.
    known = _component(name, version if name in ("kcr", "kcr-devcluster") else package.version)
    stated = stated_licence(package)
    return {**known, "licenses": [{"expression": stated}]} if stated else known


def _needs(package: Distribution, refs: Mapping[str, str]) -> list[str]:
    def names() -> Iterator[str]:
        for needed in map(Requirement, package.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                yield canonicalize_name(needed.name)

    return sorted({refs[name] for name in names() if name in refs})
