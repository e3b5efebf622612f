"""Tests of what Python's own regular expressions cannot do."""

from importlib.util import find_spec

import pytest

needs_re2 = pytest.mark.skipif(find_spec("re2") is None, reason="google-re2 has no build for this Python or machine")
