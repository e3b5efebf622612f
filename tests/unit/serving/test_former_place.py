"""The former place of the webhooks' names."""

import pytest

import kcr.webhooks
from kcr.serving.webhooks import WebhookRequest


def test_names_of_the_former_place_warn() -> None:
    with pytest.warns(DeprecationWarning, match="import it from there"):
        assert kcr.webhooks.WebhookRequest is WebhookRequest


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        kcr.webhooks.nothing  # noqa: B018
