"""JSON patch, JSON merge patch and strategic merge patch, as functions from values to values."""

from kcr_devcluster.apiserver.patch.json_patch import decode_operations as decode_operations
from kcr_devcluster.apiserver.patch.json_patch import json_patch, merge_patch
from kcr_devcluster.apiserver.patch.json_patch import with_raw_values as with_raw_values
from kcr_devcluster.apiserver.patch.strategic import strategic_patch

__all__ = ["json_patch", "merge_patch", "strategic_patch"]
