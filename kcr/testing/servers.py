"""The part of the test kit that needs `kcr-devcluster`; without it, an import fails with the name of the extra."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed_by(name: str) -> Iterator[None]:
    """Name the extra where an import fails because `kcr_devcluster` is not installed.

    Args:
        name: The name that users import.

    Raises:
        ImportError: It is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not f"{error.name}.".startswith("kcr_devcluster."):
            raise
        raise ImportError(f"{name} needs the extra 'test': pip install 'kcr[test]'") from None
