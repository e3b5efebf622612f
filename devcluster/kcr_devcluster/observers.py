"""Functions that see every request and response of the API servers in this process.

The test kit adds one for the length of a test, before any server exists: this module imports no server.
"""

from collections.abc import Callable
from typing import Any

# Each is called with an `HTTPRequest` and its `APIResponse`.
OBSERVERS: list[Callable[[Any, Any], None]] = []
