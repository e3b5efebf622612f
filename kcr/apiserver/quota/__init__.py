"""Quotas: how much the objects of a namespace may be and take, together."""

from kcr.apiserver.quota.quotas import Quotas

__all__ = ["Quotas"]
