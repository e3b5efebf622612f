"""What the tests of the wire share."""

import pytest
import trustme


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Give a certificate authority."""
    return trustme.CA()
