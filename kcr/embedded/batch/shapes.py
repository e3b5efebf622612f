"""The shapes of the batch kinds.

Source: kubernetes/staging/src/k8s.io/api/batch/v1/types.go.
"""

from kcr.embedded.core import shapes
from kcr.embedded.core.shape import read_shapes

_BATCH = """
Job
  kind apiVersion string
  metadata any
  spec JobSpec
  status JobStatus

JobSpec
  parallelism completions backoffLimit backoffLimitPerIndex maxFailedIndexes ttlSecondsAfterFinished *int32
  activeDeadlineSeconds *int64
  podFailurePolicy PodFailurePolicy
  successPolicy SuccessPolicy
  selector LabelSelector
  manualSelector suspend *bool
  template PodTemplateSpec
  completionMode podReplacementPolicy managedBy *string

PodFailurePolicy
  rules *[]PodFailurePolicyRule

PodFailurePolicyRule
  action string
  onExitCodes PodFailurePolicyOnExitCodesRequirement
  onPodConditions []PodFailurePolicyOnPodConditionsPattern

PodFailurePolicyOnExitCodesRequirement
  containerName *string
  operator string
  values *[]int32

PodFailurePolicyOnPodConditionsPattern
  type string
  status string

SuccessPolicy
  rules *[]SuccessPolicyRule

SuccessPolicyRule
  succeededIndexes *string
  succeededCount *int32

JobStatus
  conditions []JobCondition
  startTime completionTime time
  active succeeded failed int32
  terminating ready *int32
  completedIndexes string
  failedIndexes *string
  uncountedTerminatedPods UncountedTerminatedPods

UncountedTerminatedPods
  succeeded failed []string

JobCondition
  type status reason message string
  lastProbeTime lastTransitionTime time!

CronJob
  kind apiVersion string
  metadata any
  spec CronJobSpec
  status CronJobStatus

CronJobSpec
  schedule timeZone *string
  startingDeadlineSeconds *int64
  concurrencyPolicy string
  suspend *bool
  jobTemplate JobTemplateSpec
  successfulJobsHistoryLimit failedJobsHistoryLimit *int32

JobTemplateSpec
  metadata ObjectMeta
  spec JobSpec

CronJobStatus
  active []ObjectReference
  lastScheduleTime lastSuccessfulTime time
"""

SHAPES = read_shapes(_BATCH, shapes.SHAPES)
