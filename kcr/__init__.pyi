"""The public names of kcr, each with its module: the one list of them, for type checkers and for kcr itself."""

from kcr.api.conditions import (
    find_condition as find_condition,
    is_condition_true as is_condition_true,
    remove_condition as remove_condition,
    set_condition as set_condition,
)
from kcr.api.crd import crd_manifest as crd_manifest
from kcr.api.explanation import Code as Code, Explanation as Explanation, Step as Step
from kcr.api.markers import (
    IntOrString as IntOrString,
    ListType as ListType,
    PrinterColumn as PrinterColumn,
    Quantity as Quantity,
    ScaleSubresource as ScaleSubresource,
    Validation as Validation,
)
from kcr.api.meta import (
    Condition as Condition,
    FullResource as FullResource,
    Key as Key,
    Object as Object,
    ObjectMeta as ObjectMeta,
    Resource as Resource,
    ResourceView as ResourceView,
    metadata_only as metadata_only,
)
from kcr.api.readiness import is_ready as is_ready, readiness as readiness
from kcr.api.unstructured import Unstructured as Unstructured, unstructured as unstructured
from kcr.app.run import run as run
from kcr.client import Client as Client
from kcr.client.explainers import explains as explains
from kcr.client.client import connect as connect
from kcr.clusters import Clusters as Clusters
from kcr.controller import (
    Controller as Controller,
    Expectations as Expectations,
    OwnWrites as OwnWrites,
    Reconciler as Reconciler,
    Result as Result,
    WaitFor as WaitFor,
    channel as channel,
    generation_changed as generation_changed,
    in_thread as in_thread,
    keys_by_index as keys_by_index,
    owned as owned,
    rights as rights,
    watch as watch,
)
from kcr.dependents import (
    Children as Children,
    DependentControl as DependentControl,
    create_or_patch as create_or_patch,
    finalized as finalized,
    set_controller as set_controller,
)
from kcr.errors import (
    AlreadyExistsError as AlreadyExistsError,
    ApiError as ApiError,
    ConfigError as ConfigError,
    ConflictError as ConflictError,
    Denied as Denied,
    ForbiddenError as ForbiddenError,
    InvalidError as InvalidError,
    KcrError as KcrError,
    NotFoundError as NotFoundError,
    NotSyncedError as NotSyncedError,
    RetryLater as RetryLater,
    TerminalError as TerminalError,
    TransportError as TransportError,
    is_namespace_ending as is_namespace_ending,
)
from kcr.events import EventRecorder as EventRecorder
from kcr.informer import Selection as Selection, Store as Store
from kcr.manager import Manager as Manager
from kcr.scopes.namespaces import Namespaces as Namespaces
from kcr.scopes.sharding import Sharding as Sharding
from kcr.serving.webhooks import WebhookRequest as WebhookRequest
from kcr.serving.webhooks.conversion import converts as converts
