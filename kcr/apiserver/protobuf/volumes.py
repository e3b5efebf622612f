"""The messages of volumes in protobuf bodies, in the notation of `protobuf_messages`.

The volumes of clouds and storage appliances are left out: a body that has one is refused.

Source: the generated.proto of k8s.io/api/core/v1: field numbers.
"""

VOLUMES = """
Volume
  1 name string
  2 - VolumeSource

VolumeSource
  1 hostPath HostPathVolumeSource
  2 emptyDir EmptyDirVolumeSource
  6 secret SecretVolumeSource
  7 nfs NFSVolumeSource
  10 persistentVolumeClaim PersistentVolumeClaimVolumeSource
  16 downwardAPI DownwardAPIVolumeSource
  19 configMap ConfigMapVolumeSource
  26 projected ProjectedVolumeSource
  28 csi CSIVolumeSource
  30 image ImageVolumeSource

HostPathVolumeSource
  1 path string
  2 type string

EmptyDirVolumeSource
  1 medium string
  2 sizeLimit quantity

SecretVolumeSource
  1 secretName string
  2 items []KeyToPath
  3 defaultMode int
  4 optional bool

KeyToPath
  1 key string
  2 path string
  3 mode int

NFSVolumeSource
  1 server string
  2 path string
  3 readOnly bool

PersistentVolumeClaimVolumeSource
  1 claimName string
  2 readOnly bool

DownwardAPIVolumeSource
  1 items []DownwardAPIVolumeFile
  2 defaultMode int

DownwardAPIVolumeFile
  1 path string
  2 fieldRef ObjectFieldSelector
  3 resourceFieldRef ResourceFieldSelector
  4 mode int

ConfigMapVolumeSource
  1 - LocalObjectReference
  2 items []KeyToPath
  3 defaultMode int
  4 optional bool

CSIVolumeSource
  1 driver string
  2 readOnly bool
  3 fsType string
  4 volumeAttributes map[string]string
  5 nodePublishSecretRef LocalObjectReference

ImageVolumeSource
  1 reference string
  2 pullPolicy string

ProjectedVolumeSource
  1 sources []VolumeProjection
  2 defaultMode int

VolumeProjection
  1 secret SecretProjection
  2 downwardAPI DownwardAPIProjection
  3 configMap ConfigMapProjection
  4 serviceAccountToken ServiceAccountTokenProjection
  5 clusterTrustBundle ClusterTrustBundleProjection

SecretProjection
  1 - LocalObjectReference
  2 items []KeyToPath
  4 optional bool

DownwardAPIProjection
  1 items []DownwardAPIVolumeFile

ConfigMapProjection
  1 - LocalObjectReference
  2 items []KeyToPath
  4 optional bool

ServiceAccountTokenProjection
  1 audience string
  2 expirationSeconds int
  3 path string

ClusterTrustBundleProjection
  1 name string
  2 signerName string
  3 labelSelector LabelSelector
  4 path string
  5 optional bool
"""
