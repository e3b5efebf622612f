"""The private file that tells kubectl how to reach the cluster of `kcr dev`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kcr.errors import ConfigError

# The first line of a file that is ours to replace. Anybody else's kubeconfig is not.
MARK = "# Written by kcr dev, which replaces and removes it.\n"


def default_path(environ: Mapping[str, str]) -> Path:
    """Return where the file goes unless the user says: the runtime directory of the session, else `~/.kcr`."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "kcr" / "dev.kubeconfig"
    return Path("~/.kcr/dev.kubeconfig").expanduser()


@contextmanager
def private_file(path: Path, text: str) -> Iterator[None]:
    """Keep a kubeconfig in a file that only its owner can read, for as long as the context lives.

    Raises:
        ConfigError: The file is not ours to replace, or cannot be written.
    """
    content = MARK + text
    try:
        if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(MARK):
            raise ConfigError(f"{path} exists and is not of kcr dev: name another file with --kubeconfig")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}: name another file with --kubeconfig") from error
    try:
        yield
    finally:
        # Another kcr dev may have put its own there since.
        with suppress(OSError):
            if path.read_text(encoding="utf-8") == content:
                path.unlink()


def _write(path: Path, content: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    beside.replace(path)
