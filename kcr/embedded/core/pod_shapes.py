"""The shapes of pods and their templates.

`any` stands where nobody here looks.

Source: kubernetes/staging/src/k8s.io/api/core/v1/types.go.
"""

PODS = """
Pod
  kind apiVersion string
  metadata any
  spec PodSpec
  status PodStatus

PodTemplateSpec
  metadata ObjectMeta
  spec PodSpec

PodSpec
  volumes []Volume
  initContainers containers ephemeralContainers []Container
  restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostname subdomain string
  schedulerName priorityClassName string
  terminationGracePeriodSeconds activeDeadlineSeconds *int64
  nodeSelector map[string]string
  automountServiceAccountToken shareProcessNamespace setHostnameAsFQDN enableServiceLinks hostUsers *bool
  hostNetwork hostPID hostIPC bool
  securityContext PodSecurityContext
  imagePullSecrets []LocalObjectReference
  affinity Affinity
  tolerations []Toleration
  hostAliases []HostAlias
  priority *int32
  dnsConfig PodDNSConfig
  readinessGates []PodReadinessGate
  runtimeClassName preemptionPolicy hostnameOverride *string
  overhead map[string]quantity
  topologySpreadConstraints []TopologySpreadConstraint
  os PodOS
  schedulingGates []PodSchedulingGate
  resourceClaims []PodResourceClaim
  resources ResourceRequirements
  schedulingGroup any

Container
  name image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy targetContainerName string
  command args []string
  ports []ContainerPort
  envFrom []EnvFromSource
  env []EnvVar
  resources ResourceRequirements
  resizePolicy []ContainerResizePolicy
  restartPolicy *string
  restartPolicyRules []any
  volumeMounts []VolumeMount
  volumeDevices []VolumeDevice
  livenessProbe readinessProbe startupProbe Probe
  lifecycle Lifecycle
  securityContext SecurityContext
  stdin stdinOnce tty bool

ContainerPort
  name protocol hostIP string
  hostPort containerPort int32

ContainerResizePolicy
  resourceName restartPolicy string

EnvVar
  name value string
  valueFrom EnvVarSource

EnvVarSource
  fieldRef ObjectFieldSelector
  resourceFieldRef ResourceFieldSelector
  configMapKeyRef secretKeyRef KeySelector
  fileKeyRef any

EnvFromSource
  prefix string
  configMapRef secretRef KeySelector

KeySelector
  name key string
  optional *bool

ObjectFieldSelector
  apiVersion fieldPath string

ResourceFieldSelector
  containerName resource string
  divisor quantity

ResourceRequirements
  limits requests map[string]quantity
  claims []ResourceClaim

ResourceClaim
  name request string

VolumeMount
  name mountPath subPath subPathExpr string
  readOnly bool
  recursiveReadOnly mountPropagation *string

VolumeDevice
  name devicePath string

Probe
  exec ExecAction
  httpGet HTTPGetAction
  tcpSocket TCPSocketAction
  grpc GRPCAction
  initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold int32
  terminationGracePeriodSeconds *int64

Lifecycle
  postStart preStop LifecycleHandler
  stopSignal *string

LifecycleHandler
  exec ExecAction
  httpGet HTTPGetAction
  tcpSocket TCPSocketAction
  sleep SleepAction

ExecAction
  command []string

HTTPGetAction
  path host scheme string
  port intstr
  httpHeaders []HTTPHeader

HTTPHeader
  name value string

TCPSocketAction
  port intstr
  host string

GRPCAction
  port int32
  service *string

SleepAction
  seconds *int64

SecurityContext
  capabilities seLinuxOptions windowsOptions seccompProfile appArmorProfile any
  privileged runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation *bool
  runAsUser runAsGroup *int64
  procMount *string

PodSecurityContext
  seLinuxOptions windowsOptions seccompProfile appArmorProfile any
  runAsUser runAsGroup fsGroup *int64
  runAsNonRoot *bool
  supplementalGroups []int64
  supplementalGroupsPolicy fsGroupChangePolicy seLinuxChangePolicy *string
  sysctls []HTTPHeader

LocalObjectReference
  name string

Affinity
  nodeAffinity NodeAffinity
  podAffinity podAntiAffinity any

NodeAffinity
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm

NodeSelector
  nodeSelectorTerms *[]NodeSelectorTerm

NodeSelectorTerm
  matchExpressions matchFields []NodeSelectorRequirement

NodeSelectorRequirement
  key operator string
  values []string

PreferredSchedulingTerm
  weight *int32
  preference NodeSelectorTerm

Toleration
  key operator value effect string
  tolerationSeconds *int64

HostAlias
  ip string
  hostnames []string

PodDNSConfig
  nameservers searches []string
  options []PodDNSConfigOption

PodDNSConfigOption
  name string
  value *string

PodReadinessGate
  conditionType string

TopologySpreadConstraint
  maxSkew int32
  topologyKey whenUnsatisfiable string
  labelSelector LabelSelector
  minDomains *int32
  nodeAffinityPolicy nodeTaintsPolicy *string
  matchLabelKeys []string

PodOS
  name string

PodSchedulingGate
  name string

PodResourceClaim
  name string
  resourceClaimName resourceClaimTemplateName *string
"""
