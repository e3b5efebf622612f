"""The shapes of volumes.

`any` stands for the kinds of volumes that need a machine behind them.

Source: kubernetes/staging/src/k8s.io/api/core/v1/types.go.
"""

VOLUMES = """
Volume
  name string
  emptyDir EmptyDirVolumeSource
  hostPath HostPathVolumeSource
  configMap ConfigMapVolumeSource
  secret SecretVolumeSource
  downwardAPI DownwardAPIVolumeSource
  projected ProjectedVolumeSource
  persistentVolumeClaim PersistentVolumeClaimVolumeSource
  nfs NFSVolumeSource
  awsElasticBlockStore azureDisk azureFile cephfs cinder csi ephemeral fc flexVolume flocker any
  gcePersistentDisk gitRepo glusterfs image iscsi photonPersistentDisk portworxVolume quobyte rbd any
  scaleIO storageos vsphereVolume any

EmptyDirVolumeSource
  medium string
  sizeLimit *quantity

HostPathVolumeSource
  path string
  type *string

ConfigMapVolumeSource
  name string
  items []KeyToPath
  defaultMode *int32
  optional *bool

SecretVolumeSource
  secretName string
  items []KeyToPath
  defaultMode *int32
  optional *bool

KeyToPath
  key path string
  mode *int32

DownwardAPIVolumeSource
  items []DownwardAPIVolumeFile
  defaultMode *int32

DownwardAPIVolumeFile
  path string
  fieldRef ObjectFieldSelector
  resourceFieldRef ResourceFieldSelector
  mode *int32

ProjectedVolumeSource
  sources []VolumeProjection
  defaultMode *int32

VolumeProjection
  secret configMap NamedProjection
  downwardAPI DownwardAPIVolumeSource
  serviceAccountToken ServiceAccountTokenProjection
  clusterTrustBundle podCertificate any

NamedProjection
  name string
  items []KeyToPath
  optional *bool

ServiceAccountTokenProjection
  audience path string
  expirationSeconds *int64

PersistentVolumeClaimVolumeSource
  claimName string
  readOnly bool

NFSVolumeSource
  server path string
  readOnly bool
"""
