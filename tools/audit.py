"""Check licences and known vulnerabilities of what kcr installs: `make audit`.

Looked at is what `kcr[speed,embedded]` needs, as it is installed here, and what `requirements.lock` pins for the image.
Licences are those that the packages state in their metadata; each has to be one of `ALLOWED`. Vulnerabilities are those
that `pip-audit` learns from the package index, by version.

Each finding is one line with the remedy. Exit codes: 0 nothing was found; 1 something was; 2 vulnerabilities could not
be looked up, which is no good news either: pip-audit itself ends with 0 for packages that its service does not answer.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parent.parent / "requirements.lock"
EXTRAS = ("speed", "embedded")
# Permissive ones, and MPL-2.0, which asks nothing of those who use its files unchanged.
ALLOWED = frozenset(("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0"))
# How packages write them that have no SPDX expression: in `License`, or as the end of a classifier.
_SPELLED = {
    "Apache 2": "Apache-2.0", "Apache 2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0", "Apache Software License 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause", "ISC License (ISCL)": "ISC",
    "MIT License": "MIT", "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
}  # fmt: skip


def closure(name: str, extras: Iterable[str] = ()) -> dict[str, Distribution]:
    """Return an installed package and all that it needs on this machine, by canonical name.

    Args:
        name: Its name.
        extras: Which of its extras count.

    Raises:
        PackageNotFoundError: Something that it needs is not installed.
    """
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        found[canonicalize_name(name)] = package = distribution(name)
        for needed in map(Requirement, package.requires or ()):
            # One without an extra in its marker belongs to the package itself.
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(needed.name, one) for one in ("", *needed.extras)]
    return found


def licence(expression: str, name: str = "", classifiers: Iterable[str] = ()) -> str:
    """Return the licence that a package states, as an SPDX expression where it is known; empty for none.

    Args:
        expression: Its `License-Expression`, which says all.
        name: Its `License`: a name, or the text.
        classifiers: Its classifiers.
    """
    stated = expression or name
    ends = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    # The text of a licence in place of its name says less than the classifier.
    names = [stated] if stated and "\n" not in stated.strip() else ends
    known = [_SPELLED.get(name, name) for name in names]
    return " AND ".join(known)


def stated_licence(package: Distribution) -> str:
    """Return the licence that the metadata of a package state; see `licence`."""
    said = package.metadata.get_all
    (expression, *_), (text, *_) = said("License-Expression") or [""], said("License") or [""]
    return licence(expression, text, said("Classifier") or ())


def is_allowed(expression: str) -> bool:
    """Whether an SPDX expression can be satisfied with the licences that are allowed; parentheses are read strictly."""
    parts = re.sub(r"[()]", " ", expression).split(" AND ")
    return all(any(one.strip() in ALLOWED for one in part.split(" OR ")) for part in parts)


def licence_findings(packages: Mapping[str, Distribution]) -> Iterator[str]:
    """Yield a line for each package whose licence is not allowed."""
    for name, package in sorted(packages.items()):
        stated = stated_licence(package)
        if not is_allowed(stated):
            what = f"its licence is {stated[:80]!r}" if stated else "it states no licence"
            yield f"{name} {package.version}: {what}: replace it, or add the licence to ALLOWED in tools/audit.py"


def vulnerability_findings(report: bytes) -> tuple[list[str], list[str]]:
    """Read what pip-audit has written.

    Returns:
        A line for each vulnerability, and the packages that were not looked up.
    """
    findings, skipped = [], []
    for package in msgspec.json.decode(report)["dependencies"]:
        if "skip_reason" in package:
            skipped.append(package["name"])
        for found in package.get("vulns", ()):
            names = ", ".join([found["id"], *found.get("aliases", ())])
            fixed = (
                f"fixed in {', '.join(found['fix_versions'])}: `make lock`"
                if found.get("fix_versions")
                else "no fix yet"
            )
            findings.append(f"{package['name']} {package['version']}: {names}: {fixed}")
    return findings, skipped


def locked(text: str) -> list[str]:
    """Return the pins of a lock, such as `aiohttp==3.14.5`."""
    return re.findall(r"^([\w.-]+==[^\s;\\]+)", text, re.MULTILINE)


def _audit(pins: Iterable[str]) -> tuple[list[str], list[str]]:
    """Run pip-audit on pins; all are skipped when it cannot look anything up."""
    names = sorted(set(pins))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(names))
        command = [
            sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off",
            "--format", "json", "--requirement", str(file),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, check=False)
    try:
        return vulnerability_findings(done.stdout)
    except msgspec.DecodeError:
        return [], names


def main() -> int:
    """Check both, print the findings, and return the exit code."""
    packages = closure("kcr", EXTRAS)
    # Our own; no index has advisories about them.
    del packages["kcr"], packages["kcr-devcluster"]
    found = list(licence_findings(packages))
    installed = {f"{name}=={package.version}" for name, package in packages.items()}
    vulnerable: list[str] = []
    skipped: list[str] = []
    # Apart: a package may be pinned to another version than is installed.
    for pins in (locked(LOCK.read_text()), sorted(installed)):
        more, unknown = _audit(pins)
        vulnerable += more
        skipped += unknown
    lines = [*(f"licence: {line}" for line in found), *sorted({f"vulnerability: {line}" for line in vulnerable})]
    if not found:
        lines.append(f"licences: all {len(packages)} packages have one that is allowed")
    if skipped:
        missed = {name.partition("==")[0] for name in skipped}
        names = "any package" if missed >= packages.keys() else ", ".join(sorted(missed))
        lines.append(f"vulnerabilities: NOT LOOKED UP for {names}: run this where pip-audit reaches its service")
    elif not vulnerable:
        lines.append(f"vulnerabilities: none is known of the {len(packages)} packages")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if found or vulnerable else 2 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
