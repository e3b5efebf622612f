"""The three kinds of patches, as functions from values to values."""

from kcr.embedded.patch.errors import PatchError
from kcr.embedded.patch.json_patch import json_patch
from kcr.embedded.patch.merge import merge_patch
from kcr.embedded.patch.strategic import strategic_patch

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_patch"]
