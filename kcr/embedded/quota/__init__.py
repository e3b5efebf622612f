"""Quotas: how much the objects of a namespace may be and take, together."""

from kcr.embedded.quota.quotas import Quotas
from kcr.embedded.quota.status import QuotaStatusWriter

__all__ = ["QuotaStatusWriter", "Quotas"]
