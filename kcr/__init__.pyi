"""The public names of kcr, each with its module: the one list of them, for type checkers and for kcr itself."""

from kcr.api.conditions import (
    find_condition as find_condition,
)
from kcr.api.conditions import (
    is_condition_true as is_condition_true,
)
from kcr.api.conditions import (
    remove_condition as remove_condition,
)
from kcr.api.conditions import (
    set_condition as set_condition,
)
from kcr.api.crd import crd_manifest as crd_manifest
from kcr.api.explanation import (
    Code as Code,
)
from kcr.api.explanation import (
    Explanation as Explanation,
)
from kcr.api.explanation import (
    Step as Step,
)
from kcr.api.markers import (
    IntOrString as IntOrString,
)
from kcr.api.markers import (
    ListType as ListType,
)
from kcr.api.markers import (
    PrinterColumn as PrinterColumn,
)
from kcr.api.markers import (
    Quantity as Quantity,
)
from kcr.api.markers import (
    ScaleSubresource as ScaleSubresource,
)
from kcr.api.markers import (
    Validation as Validation,
)
from kcr.api.meta import (
    Condition as Condition,
)
from kcr.api.meta import (
    FullResource as FullResource,
)
from kcr.api.meta import (
    Key as Key,
)
from kcr.api.meta import (
    Object as Object,
)
from kcr.api.meta import (
    ObjectMeta as ObjectMeta,
)
from kcr.api.meta import (
    Resource as Resource,
)
from kcr.api.meta import (
    ResourceView as ResourceView,
)
from kcr.api.meta import (
    metadata_only as metadata_only,
)
from kcr.api.unstructured import (
    Unstructured as Unstructured,
)
from kcr.api.unstructured import (
    unstructured as unstructured,
)
from kcr.app.run import run as run
from kcr.client import Client as Client
from kcr.client.explainers import explains as explains
from kcr.clusters import Clusters as Clusters
from kcr.controller import (
    Controller as Controller,
)
from kcr.controller import (
    Expectations as Expectations,
)
from kcr.controller import (
    OwnWrites as OwnWrites,
)
from kcr.controller import (
    Reconciler as Reconciler,
)
from kcr.controller import (
    Result as Result,
)
from kcr.controller import (
    WaitFor as WaitFor,
)
from kcr.controller import (
    channel as channel,
)
from kcr.controller import (
    generation_changed as generation_changed,
)
from kcr.controller import (
    in_thread as in_thread,
)
from kcr.controller import (
    keys_by_index as keys_by_index,
)
from kcr.controller import (
    owned as owned,
)
from kcr.controller import (
    rights as rights,
)
from kcr.controller import (
    watch as watch,
)
from kcr.dependents import (
    Children as Children,
)
from kcr.dependents import (
    DependentControl as DependentControl,
)
from kcr.dependents import (
    create_or_patch as create_or_patch,
)
from kcr.dependents import (
    finalized as finalized,
)
from kcr.dependents import (
    set_controller as set_controller,
)
from kcr.errors import (
    AlreadyExistsError as AlreadyExistsError,
)
from kcr.errors import (
    ApiError as ApiError,
)
from kcr.errors import (
    ConfigError as ConfigError,
)
from kcr.errors import (
    ConflictError as ConflictError,
)
from kcr.errors import (
    Denied as Denied,
)
from kcr.errors import (
    ForbiddenError as ForbiddenError,
)
from kcr.errors import (
    InvalidError as InvalidError,
)
from kcr.errors import (
    KcrError as KcrError,
)
from kcr.errors import (
    NotFoundError as NotFoundError,
)
from kcr.errors import (
    NotSyncedError as NotSyncedError,
)
from kcr.errors import (
    RetryLater as RetryLater,
)
from kcr.errors import (
    TerminalError as TerminalError,
)
from kcr.errors import (
    TransportError as TransportError,
)
from kcr.errors import (
    is_namespace_ending as is_namespace_ending,
)
from kcr.events import EventRecorder as EventRecorder
from kcr.informer import (
    Selection as Selection,
)
from kcr.informer import (
    Store as Store,
)
from kcr.manager import Manager as Manager
from kcr.scopes.namespaces import Namespaces as Namespaces
from kcr.scopes.sharding import Sharding as Sharding
from kcr.serving.webhooks import WebhookRequest as WebhookRequest
from kcr.serving.webhooks.converters import converts as converts
