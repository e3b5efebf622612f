import pytest

from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.kinds.gangs import with_gangs
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.views.legacy import LEGACY_KINDS
from kcr_devcluster.apiserver.schema.builtin import kind_shape, type_shape
from kcr_devcluster.apiserver.schema.defaults import DEFAULTS
from kcr_devcluster.apiserver.schema.shape import Type


def at(shape_type: Type, *path: str) -> Type:
    for name in path:
        field = shape_type.field(name)
        assert field is not None, name
        shape_type = field.type.items or field.type if field.type.name.startswith("[]") else field.type
    return shape_type


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "name"),
    [
        pytest.param(
            "v1", "Pod", ("spec", "containers", "resources", "limits"), "map[string]resource.Quantity", id="pod"
        ),
        pytest.param("batch/v1", "Job", ("spec", "template", "spec", "restartPolicy"), "string", id="job"),
        pytest.param("autoscaling/v2", "HorizontalPodAutoscaler", ("spec",), "v2.HorizontalPodAutoscalerSpec", id="v2"),
        pytest.param("v1", "ConfigMap", ("metadata", "labels"), "map[string]string", id="metadata"),
        pytest.param("v1", "Service", ("spec", "ports", "targetPort"), "intstr.IntOrString", id="service"),
    ],
)
def test_fields_of_kinds_have_their_types(api_version: str, kind: str, path: tuple[str, ...], name: str) -> None:
    assert at(kind_shape(api_version, kind).type, *path).name == name


def test_entries_of_maps_have_the_type_of_their_values() -> None:
    # Names in a map are data: none of them is a field.
    schemas = at(type_shape("apiextensions.v1.JSONSchemaProps").type, "properties")
    entry = schemas.field("anything")
    assert entry is not None
    assert entry.type.shape is type_shape("apiextensions.v1.JSONSchemaProps")


def test_types_that_hold_themselves_are_read_step_by_step() -> None:
    shape = type_shape("apiextensions.v1.JSONSchemaProps")
    assert at(shape.type, "not", "not", "not").shape is shape


@pytest.mark.parametrize("kind", [*with_gangs(KINDS, "1.36"), *LEGACY_KINDS], ids=lambda kind: kind.type.display)
def test_every_kind_that_is_served_has_its_fields(kind: Kind) -> None:
    assert kind.shape.fields.keys() >= {"apiVersion", "kind", "metadata"}
    assert kind.shape.name == f"{kind.type.version}.{kind.type.kind}"


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_defaults_are_values_of_fields_of_the_schema(name: str) -> None:
    shape = type_shape(name)
    assert DEFAULTS[name].keys() <= shape.fields.keys()
    given = {field: value for field, value in DEFAULTS[name].items() if value != {}}
    assert shape.conform(dict(given)).items() >= given.items()


@pytest.mark.parametrize(
    ("name", "field", "list_type", "keys"),
    [
        ("meta.v1.ObjectMeta", "ownerReferences", "map", ("uid",)),
        ("meta.v1.ObjectMeta", "finalizers", "set", ()),
        ("meta.v1.ObjectMeta", "managedFields", "atomic", ()),
        ("core.v1.PodSpec", "containers", "map", ("name",)),
        ("core.v1.PodSpec", "initContainers", "map", ("name",)),
        ("core.v1.PodSpec", "volumes", "map", ("name",)),
        ("core.v1.PodSpec", "resourceClaims", "map", ("name",)),
        ("core.v1.PodSpec", "imagePullSecrets", "map", ("name",)),
        ("core.v1.PodSpec", "schedulingGates", "map", ("name",)),
        ("core.v1.PodSpec", "hostAliases", "map", ("ip",)),
        ("core.v1.PodSpec", "topologySpreadConstraints", "map", ("topologyKey", "whenUnsatisfiable")),
        ("core.v1.PodSpec", "tolerations", "atomic", ()),
        ("core.v1.PodSpec", "readinessGates", "atomic", ()),
        ("core.v1.Container", "env", "map", ("name",)),
        ("core.v1.Container", "ports", "map", ("containerPort", "protocol")),
        ("core.v1.Container", "volumeMounts", "map", ("mountPath",)),
        ("core.v1.Container", "volumeDevices", "map", ("devicePath",)),
        ("core.v1.Container", "command", "atomic", ()),
        ("core.v1.Container", "envFrom", "atomic", ()),
        ("core.v1.Container", "resizePolicy", "atomic", ()),
        ("core.v1.ResourceRequirements", "claims", "map", ("name",)),
        ("core.v1.PodStatus", "conditions", "map", ("type",)),
        ("core.v1.PodStatus", "podIPs", "map", ("ip",)),
        ("core.v1.PodStatus", "hostIPs", "atomic", ()),
        ("core.v1.PodStatus", "containerStatuses", "atomic", ()),
        ("batch.v1.JobStatus", "conditions", "atomic", ()),
        ("batch.v1.UncountedTerminatedPods", "succeeded", "set", ()),
        ("batch.v1.UncountedTerminatedPods", "failed", "set", ()),
        ("batch.v1.PodFailurePolicy", "rules", "atomic", ()),
        ("batch.v1.SuccessPolicy", "rules", "atomic", ()),
        ("batch.v1.PodFailurePolicyRule", "onPodConditions", "atomic", ()),
        ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "values", "set", ()),
        ("batch.v1.CronJobStatus", "active", "atomic", ()),
        ("apps.v1.DeploymentStatus", "conditions", "map", ("type",)),
        ("core.v1.NamespaceStatus", "conditions", "map", ("type",)),
        ("core.v1.NodeSpec", "podCIDRs", "set", ()),
        ("core.v1.NodeSpec", "taints", "atomic", ()),
        ("core.v1.NodeStatus", "addresses", "map", ("type",)),
        ("core.v1.NamespaceSpec", "finalizers", "atomic", ()),
        ("core.v1.ServiceSpec", "ports", "map", ("port", "protocol")),
        ("core.v1.ServiceAccount", "secrets", "map", ("name",)),
        ("core.v1.ServiceAccount", "imagePullSecrets", "atomic", ()),
        ("rbac.v1.Role", "rules", "atomic", ()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_server_side_apply_finds_how_lists_merge(name: str, field: str, list_type: str, keys: tuple[str, ...]) -> None:
    # AS 10.6
    found = type_shape(name).fields[field]
    assert (found.list_type, found.list_map_keys) == (list_type, keys)


def test_server_side_apply_finds_what_is_atomic() -> None:
    assert type_shape("meta.v1.LabelSelector").is_atomic
    assert not type_shape("core.v1.PodSpec").is_atomic
    assert type_shape("core.v1.PodSpec").fields["nodeSelector"].map_type == "atomic"
    assert type_shape("meta.v1.ObjectMeta").fields["labels"].map_type == "granular"
