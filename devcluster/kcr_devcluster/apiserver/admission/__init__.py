"""Admission by others than the server itself: webhooks and policies review the writes of requests.

The registry is synchronous: between reading the old version of an object and storing the new one nothing else runs. A
review awaits. So a write is replayed (`protocol.replay`): where the registry needs a review whose answer is not known,
it raises `PendingError`; the server awaits the review, remembers the answer by its exact input, and makes the write
again from the start. The attempt that stores has all answers and is one step, so no update is lost: an object that has
changed in the meantime is a new input, and is reviewed again, as upstream's GuaranteedUpdate does. Values that a
request draws (uid, generated name, time) are the same in each attempt.

A request is reviewed in two phases. Mutating: policies, then webhooks one after another, with the defaults of the
schema after each patch; where they changed the object, the steps of the server run again, and with them the webhooks
with `reinvocationPolicy: IfNeeded`. Validating: policies, then all webhooks at once; quotas come last. Writes of the
server itself are not reviewed, nor are the configurations of admission.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook.
"""
