"""Which plugins of the mutating phase are called once more in its second round.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go and
pkg/admission/plugin/policy/mutating/reinvocationcontext.go.
"""

from typing import NamedTuple

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.admission.objects import MutatingReview
from kcr_devcluster.apiserver.protocol.manifests import Manifest


class Reinvocation(NamedTuple):
    """The memory of the webhooks, or of the policies, between the two rounds.

    Attributes:
        invoked: Those with `IfNeeded` that were called, and after which no other has changed the object.
        again: Those after which another one has: the second round calls them.
        output: The object as they have left it.
        is_second: Whether this is the second round, in which none is called for the first time.
    """

    invoked: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    output: Manifest | None = None
    is_second: bool = False

    @classmethod
    def of(cls, review: MutatingReview, name: str) -> "Reinvocation":
        """Return the memory at the begin of a round."""
        found = review.memory.get(name)
        memory = (found if isinstance(found, cls) else cls())._replace(is_second=review.is_reinvocation)
        # Steps of the server, or a later plugin, may have changed the object since.
        is_changed = review.is_reinvocation and not same_json(review.obj, memory.output)
        return memory._changed() if is_changed else memory

    def calls(self, key: str) -> bool:
        """Return whether one is called in this round."""
        return not self.is_second or key in self.again

    def called(self, key: str, *, changed: bool, is_reinvoked: bool) -> "Reinvocation":
        """Return the memory after a call.

        Args:
            key: The webhook or policy.
            changed: Whether it has changed the object.
            is_reinvoked: Whether its `reinvocationPolicy` is `IfNeeded`.
        """
        memory = self._changed() if changed else self
        return memory._replace(invoked=memory.invoked | {key}) if is_reinvoked else memory

    def remember(self, review: MutatingReview, name: str) -> None:
        """Keep the memory for the second round."""
        review.memory[name] = self._replace(output=review.obj)

    def _changed(self) -> "Reinvocation":
        """Return the memory after a change of the object: all that were called are to be called again."""
        return self._replace(invoked=frozenset(), again=self.again | self.invoked)
