{{- define "kcr.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "kcr.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains (include "kcr.name" .) .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kcr.name" .) | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "kcr.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end }}

{{- /* The namespaces to work in, with commas; none for all. */}}
{{- define "kcr.watched" -}}
{{- $names := concat (list .Values.watchNamespace) .Values.watchNamespaces | compact | uniq -}}
{{- if and .Values.rbac.namespaced (not $names) (not .Values.namespaceSelector) -}}
{{- $names = list (include "kcr.namespace" .) -}}
{{- end -}}
{{- join "," $names -}}
{{- end }}

{{- /* Whether all controllers are the user's own: kcr run would add them to its default. */}}
{{- define "kcr.ownControllersOnly" -}}
{{- if not (or (has "job" .Values.controllers) (has "ttl" .Values.controllers) (has "cronjob" .Values.controllers)) -}}
true
{{- end -}}
{{- end }}

{{- define "kcr.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kcr.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "kcr.labels" -}}
{{ include "kcr.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kcr.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kcr.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "kcr.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end }}

{{- /* Values that contradict each other: each message has the remedy. */}}
{{- define "kcr.validate" -}}
{{- range .Values.controllers -}}
{{- if and (has . (list "ttl" "cronjob")) (not $.Values.takeOver) -}}
{{- fail (printf "controllers: %s cannot run beside the cluster's own: set takeOver=true, and switch that one off" .) -}}
{{- end -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) (not .Values.sharding.shards) -}}
{{- fail "replicas: more than one need leader election or sharding: set leaderElection.enabled=true, sharding.shards=8 or replicas=1" -}}
{{- end -}}
{{- if and .Values.sharding.shards (gt (len (include "kcr.fullname" .)) 38) -}}
{{- fail (printf "sharding: the name %s is too long for the labels of its Leases: set a fullnameOverride of at most 38 characters" (include "kcr.fullname" .)) -}}
{{- end -}}
{{- if and .Values.namespaceSelector (or .Values.watchNamespace .Values.watchNamespaces) -}}
{{- fail "namespaceSelector: it chooses the namespaces, as watchNamespace and watchNamespaces do: leave one of them away" -}}
{{- end -}}
{{- if and .Values.rbac.namespaced .Values.metrics.secure -}}
{{- fail "rbac: protected metrics need a ClusterRole, for reviews of tokens: set rbac.namespaced=false or metrics.secure=false" -}}
{{- end -}}
{{- if and .Values.featureGates.WorkloadWithJob (not .Values.featureGates.GenericWorkload) -}}
{{- fail "featureGates: WorkloadWithJob needs GenericWorkload=true as well" -}}
{{- end -}}
{{- if not .Values.metrics.enabled -}}
{{- if or .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled .Values.metrics.prometheusRule.enabled .Values.metrics.dashboard.enabled .Values.metrics.secure -}}
{{- fail "metrics: secure, serviceMonitor, podMonitor, prometheusRule and dashboard need metrics.enabled=true" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled (or .Values.metrics.serviceMonitor.enabled .Values.metrics.secure) -}}
{{- fail "metrics: a podMonitor would scrape each replica twice beside a serviceMonitor, and has no token for secure metrics: set metrics.podMonitor.enabled=false" -}}
{{- end -}}
{{- if and .Values.metrics.certSecret (not .Values.metrics.secure) -}}
{{- fail "metrics: certSecret needs metrics.secure=true" -}}
{{- end -}}
{{- end }}

{{- /* The rights of the controllers, from files/rights.yaml, which `python -m tools.chart` makes from the code. */}}
{{- define "kcr.rules" -}}
{{- $rights := .Files.Get "files/rights.yaml" | fromYaml -}}
{{- $names := .Values.controllers -}}
{{- if and (has "job" $names) .Values.featureGates.WorkloadWithJob -}}
{{- $names = append $names "job-with-workloads" -}}
{{- end -}}
{{- $rules := list -}}
{{- range $names -}}
{{- $rules = concat $rules (default (list) (get $rights .)) -}}
{{- end -}}
{{- if ne .Values.eventsApi "core" -}}
{{- $rules = append $rules (include "kcr.eventsRule" . | fromYaml) -}}
{{- end -}}
{{- toYaml (concat $rules .Values.rbac.extraRules | uniq) -}}
{{- end }}

{{- define "kcr.eventsRule" -}}
{apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
{{- end }}

{{- /* The fields of a probe: the chart's request to `path`, unless the values have a handler of their own. */}}
{{- define "kcr.probe" -}}
{{- $own := pick .fields "httpGet" "exec" "tcpSocket" "grpc" -}}
{{- if not $own }}
httpGet: {path: {{ .path }}, port: probes}
{{- end }}
{{ toYaml .fields }}
{{- end }}

{{- define "kcr.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "kcr.serviceAccountName" . | quote }}
    namespace: {{ include "kcr.namespace" . | quote }}
{{- end }}
