"""The former place of `kcr.serving.webhooks`, until the next minor version."""

import importlib
import warnings


def __getattr__(name: str) -> object:
    found = getattr(importlib.import_module("kcr.serving.webhooks"), name)
    warnings.warn(f"kcr.webhooks.{name} is kcr.serving.webhooks.{name}: import it from there", DeprecationWarning, 2)
    return found
