"""`explore`: a scenario with every fault at every write of an operator, in virtual time.

`explorer` tries plans of faults (`plans`), each in a `world` of its own where the operator is a `process` with a line
that has the faults; a `recorder` notes what happens, `oracles` judge it, and a `history` of few lines tells it.
"""

from kcr_devcluster.testing.explore.explorer import FoundError, Report, explore
from kcr_devcluster.testing.explore.history import Step
from kcr_devcluster.testing.explore.outside import ScenarioError
from kcr_devcluster.testing.explore.states import State
from kcr_devcluster.testing.explore.world import World

__all__ = ["FoundError", "Report", "ScenarioError", "State", "Step", "World", "explore"]
