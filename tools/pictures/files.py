"""The files of the pictures, and whether they are older than what they show."""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from tools.pictures.diagrams import DIAGRAMS
from tools.pictures.screens import SCREENS, digest
from tools.pictures.terminals import terminals

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
# The hashes of what the screenshots show.
HASHES = "screenshots.sha256"
MAX_BYTES = 60_000
_REMEDY = "run python -m tools.pictures"


def drawn() -> dict[str, str]:
    """Return the pictures that are the same each time they are made, by the names of their files."""
    found = {name: diagram.svg() for name, diagram in DIAGRAMS.items()} | terminals()
    return {f"{name}.svg": text for name, text in found.items()}


def faults(folder: Path = FOLDER) -> list[str]:
    """Return the pictures that are missing, too large, or older than what they show."""
    expected, hashes = drawn(), _hashes(folder)
    found = [
        f"{name}: differs from what it shows: {_REMEDY}"
        for name, text in expected.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]
    found += [
        f"{name}.webp: older than what it shows: {_REMEDY}"
        for name in SCREENS
        if not (folder / f"{name}.webp").is_file() or hashes.get(name) != digest(name)
    ]
    known = {*expected, *(f"{name}.webp" for name in SCREENS), HASHES}
    for path in sorted(folder.iterdir()):
        if path.name not in known:
            found.append(f"{path.name}: nothing makes it")
        if path.stat().st_size > MAX_BYTES:
            found.append(f"{path.name}: more than {MAX_BYTES // 1000} kB")
    return found


def write(
    texts: Mapping[str, str], take: Callable[[], Mapping[str, bytes]], names: Collection[str], folder: Path = FOLDER
) -> Iterator[Path]:
    """Write the pictures that differ from what they show, and yield their paths.

    Args:
        texts: What `drawn` returns.
        take: Takes all screenshots; not called when none is needed.
        names: The screenshots that are taken in any case.
        folder: Where they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")
            yield folder / name
    hashes = _hashes(folder)
    wanted = [
        name
        for name in SCREENS
        if name in names or hashes.get(name) != digest(name) or not (folder / f"{name}.webp").is_file()
    ]
    if not wanted:
        return
    pictures = take()
    for name in wanted:
        (folder / f"{name}.webp").write_bytes(pictures[name])
        yield folder / f"{name}.webp"
    lines = [f"{digest(name) if name in wanted else hashes[name]}  {name}.webp\n" for name in SCREENS]
    (folder / HASHES).write_text("".join(lines), encoding="utf-8")


def _hashes(folder: Path) -> dict[str, str]:
    path = folder / HASHES
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else ()
    return {name.removesuffix(".webp"): value for value, _, name in (line.partition("  ") for line in lines)}
