"""Judges each request of the operator: by the declared rights, and by how many a reconcile takes."""

from kcr.client import Request
from kcr.manager import Manager
from kcr_devcluster.calls import call_of
from kcr_devcluster.testing.explore.line import described
from kcr_devcluster.testing.explore.recorder import Recorder
from kcr_devcluster.testing.requests import sent_request
from kcr_devcluster.testing.rights import DeclaredRights, as_right, needed, spoken


class RequestJudge:
    """Sees the requests of one process of the operator; an observer of them."""

    def __init__(self, manager: Manager, recorder: Recorder) -> None:
        """Make one.

        Args:
            manager: The manager of the process, with its controllers.
            recorder: Notes what is wrong.
        """
        self._manager, self._recorder = manager, recorder
        self._declared = DeclaredRights.of(manager)

    def answered(self, request: Request, code: int, seconds: float) -> None:
        """Judge a request; see `RequestObserver`."""
        sent = sent_request(request, code)
        if sent.reconcile and sent.attributes.verb != "watch":
            self._recorder.requests[sent.controller, sent.reconcile] += 1
        if not self._declared.has_requests:
            return
        for attributes in needed(request, sent):
            right = as_right(attributes, self._declared, self._manager)
            if not self._declared.has(right, sent):
                who = f"controller {sent.controller}" if sent.controller else "the operator"
                text = f"the declared rights of {who} lack {spoken(right)}"
                about = described(request, call_of(request.method, request.target))
                self._recorder.object_to("rights", text, about)

    def received(self, request: Request, size: int) -> None:
        """Do nothing."""
