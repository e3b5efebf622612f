"""The kinds of admissionregistration.k8s.io: configurations of webhooks, admission policies and their bindings."""
