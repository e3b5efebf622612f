"""The options of sharding."""

from typing import Annotated

import msgspec

from kcr.api.slots import check_shards


class Sharding(msgspec.Struct, frozen=True, kw_only=True):
    """Lets every replica reconcile its share of the objects.

    ```python
    kcr.run(setup, sharding=kcr.Sharding(shards=8))
    ```

    Attributes:
        shards: How many shards the objects are divided into, the same in all replicas: a power of two up to 64.
    """

    shards: Annotated[int, "How many shards the objects are divided into: a power of two up to 64."] = 8

    def __post_init__(self) -> None:
        """Check the number of shards.

        Raises:
            ValueError: The slots cannot be divided so.
        """
        check_shards(self.shards)
