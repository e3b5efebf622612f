"""Jobs on the embedded server: defaults, preparation, validation, and what a status write may do."""

from kcr.embedded.batch.job import JobStrategy

__all__ = ["JobStrategy"]
