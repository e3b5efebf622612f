"""Pod Security: the levels `baseline` and `restricted` that namespaces demand of their pods by labels.

`policies` reads the labels and evaluates pods, `baseline` and `restricted` are the checks of the levels with their
versions, and `admission` refuses and warns.

Source: k8s.io/pod-security-admission v0.36, and kubernetes/plugin/pkg/admission/security/podsecurity.
"""

from kcr_devcluster.apiserver.pod_security.admission import PodSecurityAdmission

__all__ = ["PodSecurityAdmission"]
