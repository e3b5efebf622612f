"""A disk that is full for this process, without rights or a file system of its own."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file grows beyond so many bytes; a write beyond it fails with EFBIG.

    Modules that are imported meanwhile get no bytecode: Python before gh-126606 keeps files of it that are cut short.
    """
    before, sys.dont_write_bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), True
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = False
