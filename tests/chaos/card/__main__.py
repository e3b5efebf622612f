"""The reliability card: `make card` runs stories for a given time and prints the faults, laws and violations.

`python -m tests.chaos.card` runs all enumerated stories, then seeds until KCR_CARD_MINUTES (60) are over, in
KCR_CARD_WORKERS processes (one for each core), and plants the defects that the laws must find. It writes
docs/reliability.md with `--write`, and ends with 1 where a law was broken or a defect was not found.

`python -m tests.chaos.card STORY` lives one story again: `make card STORY=jobs/17`.
"""

import os
import sys

from tests.chaos.card import planted, table
from tests.chaos.card.running import failure, lived, prepare, run


def main(arguments: list[str]) -> int:
    """Run the card, or live one story again."""
    prepare()
    match arguments:
        case ["--help" | "-h"]:
            print(__doc__)
            return 0
        case ["--hunt", name]:
            return planted.hunt(name)
        case [story] if not story.startswith("-"):
            result = lived(story)
            print(failure(result) if result.wrongs else f"{story}: no law is broken ({result.seconds:.1f} s)")
            return int(bool(result.wrongs))
    minutes = float(os.environ.get("KCR_CARD_MINUTES", "60"))
    workers = int(os.environ.get("KCR_CARD_WORKERS") or os.cpu_count() or 1)
    card = run(minutes, workers)
    card.found = planted.find_all(workers)
    print(table.text(card))
    if "--write" in arguments:
        table.write(card)
    return int(bool(card.broken) or not all(found.story for found in card.found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
