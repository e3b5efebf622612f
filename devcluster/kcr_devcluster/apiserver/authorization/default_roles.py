"""The ClusterRoles, Roles and bindings that every cluster has, as a table.

One line of rules reads `verbs groups resources`, each with commas between; `core` is the group without a name, `read`
and `write` stand for several verbs, `resource=name,name` limits a rule to some objects, and a line `verbs /path,/path`
is about paths. Of upstream's roles, those of components that nothing here runs are left out.

Source: kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,controller_policy,namespace_policy}.go.
"""

from collections.abc import Mapping
from typing import NamedTuple


class DefaultRole(NamedTuple):
    """A role of the table.

    Attributes:
        rules: Its rules, one a line.
        aggregate_to: The role that aggregates it, `""` for none.
        aggregates: Whether it aggregates the roles that are labelled so with its name.
    """

    rules: str = ""
    aggregate_to: str = ""
    aggregates: bool = False


_EVENTS = "create,patch,update core,events.k8s.io events"

CLUSTER_ROLES: Mapping[str, DefaultRole] = {
    "cluster-admin": DefaultRole("* * *\n* *"),
    "admin": DefaultRole(aggregates=True),
    "edit": DefaultRole(aggregates=True, aggregate_to="admin"),
    "view": DefaultRole(aggregates=True, aggregate_to="edit"),
    "system:aggregate-to-admin": DefaultRole(
        """
        create authorization.k8s.io localsubjectaccessreviews
        read+write rbac.authorization.k8s.io rolebindings,roles
        """,
        aggregate_to="admin",
    ),
    "system:aggregate-to-edit": DefaultRole(
        """
        read core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
        impersonate core serviceaccounts
        write core pods,pods/attach,pods/exec,pods/portforward,pods/proxy
        create core pods/eviction
        write core configmaps,events,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale
        write core secrets,serviceaccounts,services,services/proxy
        create core serviceaccounts/token
        write apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale
        write apps statefulsets,statefulsets/scale
        write autoscaling horizontalpodautoscalers
        write batch cronjobs,jobs
        write extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies
        write extensions replicasets,replicasets/scale,replicationcontrollers/scale
        write policy poddisruptionbudgets
        write networking.k8s.io ingresses,networkpolicies
        read+write coordination.k8s.io leases
        write resource.k8s.io resourceclaims,resourceclaimtemplates
        """,
        aggregate_to="edit",
    ),
    "system:aggregate-to-view": DefaultRole(
        """
        read core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods
        read core replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status
        read core bindings,events,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status
        read core resourcequotas,resourcequotas/status
        read core namespaces
        read discovery.k8s.io endpointslices
        read apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status
        read apps replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status
        read autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status
        read batch cronjobs,cronjobs/status,jobs,jobs/status
        read extensions daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses
        read extensions ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status
        read extensions replicationcontrollers/scale
        read policy poddisruptionbudgets,poddisruptionbudgets/status
        read networking.k8s.io ingresses,ingresses/status,networkpolicies
        read resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates
        """,
        aggregate_to="view",
    ),
    "system:basic-user": DefaultRole(
        """
        create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
        create authentication.k8s.io selfsubjectreviews
        """
    ),
    "system:discovery": DefaultRole(
        "get /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/"
    ),
    "system:public-info-viewer": DefaultRole("get /healthz,/livez,/readyz,/version,/version/"),
    "system:monitoring": DefaultRole(
        "get /healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*"
    ),
    "system:auth-delegator": DefaultRole(
        """
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io subjectaccessreviews
        """
    ),
    "system:service-account-issuer-discovery": DefaultRole(
        "get /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/"
    ),
    "system:node": DefaultRole(
        """
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews
        read core services
        create,get,list,watch core nodes
        patch,update core nodes/status
        patch,update core nodes
        create,patch,update core events
        read core pods
        create,delete core pods
        patch,update core pods/status
        create core pods/eviction
        read core configmaps,secrets
        get core persistentvolumeclaims,persistentvolumes
        get core endpoints
        create,get,list,watch certificates.k8s.io certificatesigningrequests
        create,delete,get,patch,update coordination.k8s.io leases
        get storage.k8s.io volumeattachments
        create core serviceaccounts/token
        get,patch,update core persistentvolumeclaims/status
        read storage.k8s.io csidrivers
        create,delete,get,patch,update storage.k8s.io csinodes
        read node.k8s.io runtimeclasses
        get resource.k8s.io resourceclaims
        deletecollection resource.k8s.io resourceslices
        """
    ),
    "system:kube-scheduler": DefaultRole(
        f"""
        {_EVENTS}
        create coordination.k8s.io leases
        get,update coordination.k8s.io leases=kube-scheduler
        read core nodes
        delete,get,list,watch core pods
        create core bindings,pods/binding
        patch,update core pods/status
        read core replicationcontrollers,services
        read apps,extensions replicasets
        read apps statefulsets
        read policy poddisruptionbudgets
        read core persistentvolumeclaims,persistentvolumes
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io subjectaccessreviews
        read storage.k8s.io csinodes
        read storage.k8s.io volumeattachments
        read core namespaces
        read storage.k8s.io csidrivers
        read storage.k8s.io csistoragecapacities
        read resource.k8s.io deviceclasses
        get,list,patch,update,watch resource.k8s.io resourceclaims
        get,list,patch,update,watch resource.k8s.io resourceclaims/status
        get,list,patch,update,watch core pods/finalizers
        read resource.k8s.io resourceslices
        """
    ),
    "system:volume-scheduler": DefaultRole(
        """
        get,list,patch,update,watch core persistentvolumes
        read storage.k8s.io storageclasses
        get,list,patch,update,watch core persistentvolumeclaims
        """
    ),
    "system:kube-controller-manager": DefaultRole(
        f"""
        {_EVENTS}
        create coordination.k8s.io leases
        get,update coordination.k8s.io leases=kube-controller-manager
        create core secrets,serviceaccounts
        delete core secrets
        get core configmaps,namespaces,secrets,serviceaccounts
        update core secrets,serviceaccounts
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io subjectaccessreviews
        list,watch * *
        create core serviceaccounts/token
        """
    ),
}

_SIGNERS = tuple(
    f"kubernetes.io/{name}"
    for name in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown")
)
# Roles that may approve certificates, by signer: no default binding grants them.
APPROVER_ROLES: Mapping[str, DefaultRole] = {
    f"system:certificates.k8s.io:{signer.removeprefix('kubernetes.io/')}-approver": DefaultRole(
        f"approve certificates.k8s.io signers={signer}"
    )
    for signer in _SIGNERS
}

# The roles of the controllers, each bound to the service account of that name in kube-system.
CONTROLLER_ROLES: Mapping[str, DefaultRole] = {
    "certificate-controller": DefaultRole(
        f"""
        delete,get,list,watch certificates.k8s.io certificatesigningrequests
        update certificates.k8s.io certificatesigningrequests/approval,certificatesigningrequests/status
        approve certificates.k8s.io signers={_SIGNERS[1]}
        sign certificates.k8s.io signers={",".join(_SIGNERS)}
        create authorization.k8s.io subjectaccessreviews
        {_EVENTS}
        """
    ),
    "clusterrole-aggregation-controller": DefaultRole(
        "escalate,get,list,patch,update,watch rbac.authorization.k8s.io clusterroles"
    ),
    "cronjob-controller": DefaultRole(
        f"""
        get,list,update,watch batch cronjobs
        create,delete,get,list,patch,update,watch batch jobs
        update batch cronjobs/status
        update batch cronjobs/finalizers
        delete,list,watch core pods
        {_EVENTS}
        """
    ),
    "deployment-controller": DefaultRole(
        f"""
        get,list,update,watch apps,extensions deployments
        update apps,extensions deployments/status
        update apps,extensions deployments/finalizers
        create,delete,get,list,patch,update,watch apps,extensions replicasets
        get,list,update,watch core pods
        {_EVENTS}
        """
    ),
    "disruption-controller": DefaultRole(
        f"""
        get,list,watch apps,extensions deployments
        get,list,watch apps,extensions replicasets
        get,list,watch core replicationcontrollers
        get,list,watch policy poddisruptionbudgets
        get,list,watch apps statefulsets
        update policy poddisruptionbudgets/status
        patch,update core pods/status
        get * */scale
        {_EVENTS}
        """
    ),
    "endpointslice-controller": DefaultRole(
        f"""
        get,list,watch core nodes,pods,services
        update core services/finalizers
        create,delete,get,list,update,watch discovery.k8s.io endpointslices
        create discovery.k8s.io endpointslices/restricted
        {_EVENTS}
        """
    ),
    "generic-garbage-collector": DefaultRole(f"delete,get,list,patch,update,watch * *\n{_EVENTS}"),
    "job-controller": DefaultRole(
        f"""
        get,list,patch,update,watch batch jobs
        update batch jobs/status
        update batch jobs/finalizers
        create,delete,list,patch,watch core pods
        {_EVENTS}
        """
    ),
    "namespace-controller": DefaultRole(
        """
        delete,get,list,watch core namespaces
        update core namespaces/finalize,namespaces/status
        delete,deletecollection,get,list,watch * *
        """
    ),
    "node-controller": DefaultRole(
        f"""
        delete,get,list,patch,update,watch core nodes
        patch,update core nodes/status
        patch,update core pods/status
        delete,get,list,watch core pods
        {_EVENTS}
        """
    ),
    "pod-garbage-collector": DefaultRole(
        """
        delete,list,watch core pods
        get,list,watch core nodes
        patch core pods/status
        """
    ),
    "replicaset-controller": DefaultRole(
        f"""
        get,list,update,watch apps,extensions replicasets
        update apps,extensions replicasets/status
        update apps,extensions replicasets/finalizers
        create,delete,list,patch,watch core pods
        {_EVENTS}
        """
    ),
    "replication-controller": DefaultRole(
        f"""
        get,list,update,watch core replicationcontrollers
        update core replicationcontrollers/status
        update core replicationcontrollers/finalizers
        create,delete,list,patch,watch core pods
        {_EVENTS}
        """
    ),
    "resourcequota-controller": DefaultRole(f"list,watch * *\nupdate core resourcequotas/status\n{_EVENTS}"),
    "root-ca-cert-publisher": DefaultRole(f"create,update core configmaps\n{_EVENTS}"),
    "service-account-controller": DefaultRole(f"create core serviceaccounts\n{_EVENTS}"),
    "ttl-after-finished-controller": DefaultRole(f"delete,get,list,watch batch jobs\n{_EVENTS}"),
    "validatingadmissionpolicy-status-controller": DefaultRole(
        f"""
        get,list,watch admissionregistration.k8s.io validatingadmissionpolicies
        get,patch,update admissionregistration.k8s.io validatingadmissionpolicies/status
        {_EVENTS}
        """
    ),
}

# The subjects of the ClusterRoleBinding of each role: users, `group:NAME`, and `account:NAMESPACE/NAME`.
CLUSTER_ROLE_BINDINGS: Mapping[str, tuple[str, ...]] = {
    "cluster-admin": ("group:system:masters",),
    "system:discovery": ("group:system:authenticated",),
    "system:basic-user": ("group:system:authenticated",),
    "system:public-info-viewer": ("group:system:authenticated", "group:system:unauthenticated"),
    "system:monitoring": ("group:system:monitoring",),
    "system:kube-controller-manager": ("system:kube-controller-manager",),
    "system:kube-scheduler": ("system:kube-scheduler",),
    "system:volume-scheduler": ("system:kube-scheduler",),
    # Upstream leaves nodes to an authorizer of their own.
    "system:node": (),
    "system:service-account-issuer-discovery": ("group:system:serviceaccounts",),
    **{f"system:controller:{name}": (f"account:kube-system/{name}",) for name in CONTROLLER_ROLES},
}

_LEADER = (
    "create,get,list,update,watch coordination.k8s.io leases\n"
    "create,get,list,update,watch coordination.k8s.io leasecandidates"
)


class SystemRole(NamedTuple):
    """A Role in kube-system, the name of its RoleBinding, and the subjects of that."""

    rules: str
    binding: str
    subjects: tuple[str, ...]


KUBE_SYSTEM_ROLES: Mapping[str, SystemRole] = {
    "extension-apiserver-authentication-reader": SystemRole(
        "read core configmaps=extension-apiserver-authentication",
        "system::extension-apiserver-authentication-reader",
        ("system:kube-controller-manager", "system:kube-scheduler"),
    ),
    "system::leader-locking-kube-controller-manager": SystemRole(
        _LEADER,
        "system::leader-locking-kube-controller-manager",
        (
            "system:kube-controller-manager",
            "account:kube-system/kube-controller-manager",
            "account:kube-system/leader-election-controller",
        ),
    ),
    "system::leader-locking-kube-scheduler": SystemRole(
        _LEADER,
        "system::leader-locking-kube-scheduler",
        ("system:kube-scheduler", "account:kube-system/kube-scheduler"),
    ),
}
