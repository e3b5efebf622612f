"""Write all pictures into `docs/pictures`; with names, only those of them that are screenshots."""

import sys

from kcr.app.logs import configure_logs
from tools.pictures.files import FOLDER, drawn, write
from tools.pictures.screens import SCREENS, screens


def main(names: list[str]) -> None:
    """Write the diagrams and terminals, and the screenshots whose sources have changed or that are named."""
    if unknown := set(names) - SCREENS.keys():
        sys.exit(f"no screenshots: {', '.join(sorted(unknown))}; there are {', '.join(SCREENS)}")
    # The controllers warn of what the pictures show.
    configure_logs("plain", "critical")
    for path in write(drawn(), screens, names):
        print(f"{path.relative_to(FOLDER.parents[1])}: {path.stat().st_size / 1000:.1f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
