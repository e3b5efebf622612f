"""Why a Job is where it is, and what happens next: the words for a decision.

`cases` has the situations that a Job can be in, in the order in which they are judged; `pods` says what its
pods do, `scaling` whether the API server lets them in, `silence` whether a controller is at work at all.
"""

from kcr.controllers.job.decisions.explain.evidence import CHANGE, Evidence
from kcr.controllers.job.decisions.explain.overview import explain

__all__ = ["CHANGE", "Evidence", "explain"]
