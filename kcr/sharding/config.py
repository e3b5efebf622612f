"""The options of sharding."""

from typing import Annotated

import msgspec

from kcr.api.slots import SLOTS
from kcr.errors import ConfigError

COUNTS = tuple(2**power for power in range(SLOTS.bit_length()))


class Sharding(msgspec.Struct, frozen=True, kw_only=True):
    """Lets every replica work, each on its share of the objects.

    ```python
    kcr.run(setup, sharding=kcr.Sharding(shards=8))
    ```
    """

    shards: Annotated[int, "How many shards the objects are divided into: a power of two up to 64."] = 8

    def __post_init__(self) -> None:
        check_shards(self.shards)


def check_shards(shards: int) -> int:
    """Return a number of shards.

    Raises:
        ConfigError: The slots cannot be divided so.
    """
    if shards not in COUNTS:
        counts = ", ".join(map(str, COUNTS[:-1]))
        raise ConfigError(f"{shards} shards: the number of shards must be {counts} or {COUNTS[-1]}")
    return shards
