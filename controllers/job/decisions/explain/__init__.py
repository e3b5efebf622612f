"""The explanation of a Job: the text of a decision.

`cases` has the situations of a Job, in the order in which they are judged. `active` and `pods` describe its pods:
those that are wanted, and the creates that are due or refused.
"""

from kcr.controllers.job.decisions.explain.overview import explain
from kcr.controllers.job.decisions.explain.pods import CHANGE, Evidence

__all__ = ["CHANGE", "Evidence", "explain"]
