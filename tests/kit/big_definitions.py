"""Definitions as large operators have them: unions, rules, several versions, pod templates, fields of any kind."""

from functools import cache
from typing import Any

from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import Shape, Type
from tests.kit.custom_resources import Json, version

_SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number"},
    "intstr.IntOrString": {
        "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True,
    },
    "resource.Quantity": {
        "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True,
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$",
    },
    "v1.Time": {"type": "string", "format": "date-time"},
    "v1.MicroTime": {"type": "string", "format": "date-time"},
}  # fmt: skip
TEXT: Json = {"type": "string"}
NAME: Json = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def structural(shape: Shape) -> Json:
    """Return the structural schema of a built-in type."""
    return {"type": "object", "properties": {name: _schema(field.type) for name, field in shape.fields.items()}}


def _schema(type_: Type) -> Json:
    if type_.shape is not None:
        return structural(type_.shape)
    if type_.items is not None:
        inner = _schema(type_.items)
        is_list = type_.zero is list
        return {"type": "array", "items": inner} if is_list else {"type": "object", "additionalProperties": inner}
    return _SCALARS.get(type_.name, {"x-kubernetes-preserve-unknown-fields": True})


@cache
def pod_spec() -> Json:
    """Return the structural schema of pod specs, some 200 KB of it."""
    return structural(type_shape("core.v1.PodSpec"))


def secret_reference(**more: Any) -> Json:
    """Return the schema of a reference to an entry of a secret."""
    return {"type": "object", "required": ["name"], "properties": {"name": NAME, "key": TEXT}, **more}


_OPEN: Json = {"x-kubernetes-preserve-unknown-fields": True}
CONDITIONS: Json = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object", "required": ["type", "status"],
        "properties": {
            "type": TEXT, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "reason": TEXT,
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    },
}  # fmt: skip

_SOLVER: Json = {
    "type": "object",
    "properties": {
        "selector": {
            "type": "object",
            "properties": {
                "matchLabels": {"type": "object", "additionalProperties": TEXT},
                "dnsZones": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            },
        },
        "http01": {
            "type": "object",
            "properties": {"podTemplate": {"type": "object", "properties": {"spec": pod_spec()}}},
        },
        "dns01": {
            "type": "object",
            "properties": {
                "webhook": {
                    "type": "object", "required": ["groupName"],
                    "properties": {"groupName": TEXT, "config": {"x-kubernetes-preserve-unknown-fields": True}},
                },
                "route": {"type": "object", "properties": {"region": TEXT, "token": secret_reference()}},
            },
            "oneOf": [{"required": ["webhook"]}, {"required": ["route"]}],
        },
    },
    "x-kubernetes-validations": [
        {"rule": "has(self.http01) != has(self.dns01)", "message": "exactly one of http01 and dns01 is required"},
    ],
}  # fmt: skip

ISSUER: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "properties": {
                "acme": {
                    "type": "object", "required": ["server", "account"],
                    "properties": {
                        "server": {"type": "string", "format": "uri", "maxLength": 2048},
                        "account": secret_reference(),
                        "email": {"type": "string", "format": "email"},
                        "solvers": {"type": "array", "items": _SOLVER, "maxItems": 8},
                    },
                },
                "ca": {"type": "object", "required": ["secretName"], "properties": {"secretName": NAME}},
                "selfSigned": {"type": "object", "properties": {"points": {"type": "array", "items": TEXT}}},
                "duration": {"type": "string", "format": "duration", "default": "2160h"},
                "renewBefore": {"type": "string", "format": "duration"},
                "usages": {
                    "type": "array", "x-kubernetes-list-type": "set", "default": ["digital signature"],
                    "items": {"type": "string", "enum": ["digital signature", "server auth", "client auth"]},
                },
                "privateKey": {
                    "type": "object", "default": {},
                    "properties": {
                        "algorithm": {"type": "string", "enum": ["RSA", "ECDSA"], "default": "RSA"},
                        "size": {"type": "integer", "minimum": 256, "default": 2048},
                    },
                    "x-kubernetes-validations": [
                        {
                            "rule": "self.algorithm == 'RSA' ? self.size in [2048, 4096] : self.size in [256, 384]",
                            "messageExpression": "'%d is no size of a key of %s'.format([self.size, self.algorithm])",
                            "fieldPath": ".size",
                        },
                        {"rule": "self.algorithm == oldSelf.algorithm", "message": "the algorithm is immutable"},
                    ],
                },
            },
            "oneOf": [{"required": ["acme"]}, {"required": ["ca"]}, {"required": ["selfSigned"]}],
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.renewBefore) || self.renewBefore < self.duration",
                    "message": "must be shorter than the duration", "fieldPath": ".renewBefore",
                },
            ],
        },
        "status": {"type": "object", "properties": {"conditions": CONDITIONS}},
    },
}  # fmt: skip

WORKFLOW: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object", "required": ["entrypoint", "templates"],
            "properties": {
                "entrypoint": NAME,
                "parallelism": {"type": "integer", "minimum": 1},
                "arguments": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "templates": {
                    "type": "array", "maxItems": 50,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": {
                            "name": NAME,
                            "pod": pod_spec(),
                            "patch": {
                                "type": "object", "x-kubernetes-embedded-resource": True,
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                            "retries": {"x-kubernetes-int-or-string": True},
                            "tasks": {
                                "type": "array", "maxItems": 20,
                                "items": {
                                    "type": "object", "required": ["name", "template"],
                                    "properties": {
                                        "name": NAME, "template": NAME,
                                        "after": {"type": "array", "items": TEXT, "maxItems": 10},
                                        "with": {"type": "array", "items": _OPEN},
                                    },
                                },
                            },
                        },
                        "x-kubernetes-validations": [
                            {
                                "rule": "!has(self.tasks) || self.tasks.all(t, !has(t.after) || t.after.all(a, "
                                "self.tasks.exists(o, o.name == a)))",
                                "message": "tasks wait for tasks of the same template",
                            },
                        ],
                    },
                },
            },
            "x-kubernetes-validations": [
                {
                    "rule": "self.templates.exists(t, t.name == self.entrypoint)",
                    "messageExpression": "'there is no template ' + self.entrypoint", "fieldPath": ".entrypoint",
                },
            ],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}  # fmt: skip

ISSUERS = (
    version("v1", ISSUER, subresources={"status": {}}),
    version("v1beta1", ISSUER, storage=False, deprecated=True),
    version("v1alpha1", {**ISSUER, "required": []}, storage=False, served=False),
)
