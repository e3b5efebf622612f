"""Policies of admission in CEL: ValidatingAdmissionPolicy, MutatingAdmissionPolicy, and match conditions of webhooks.

Each write that a policy and one of its bindings match is an evaluation: the expressions of the policy with the object,
the request and a parameter of the binding. Without a policy that has a binding, nothing is evaluated.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy.
"""
