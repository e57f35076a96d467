{{/* "true" where this chart installs something; the vendor's two charts spell the switch differently. */}}
{{- define "topo.enabled" -}}
{{- if or .Values.topoDiscovery.deploy .Values.topoDiscovery.enabled }}true{{ end -}}
{{- end }}

{{/* "true" where workers run: labels alone name the groups in mode labels. */}}
{{- define "topo.workers" -}}
{{- if and (include "topo.enabled" .) (ne .Values.topoDiscovery.mode "labels") }}true{{ end -}}
{{- end }}

{{/* "true" where the webhook marks jobs: as `placement.enabled` says, and with `auto` unless schedulers ask. */}}
{{- define "topo.webhook" -}}
{{- $asked := .Values.placement.enabled -}}
{{- if eq (toString $asked) "auto" }}{{ if not .Values.extender.enabled }}true{{ end }}{{ else if $asked }}true{{ end -}}
{{- end }}

{{/*
What the leader writes, as a JSON array: as `controllers` says; with `auto` what follows from the tree and, unless
schedulers ask, what is of gangs. Those place jobs, too.
*/}}
{{- define "topo.controllers" -}}
{{- $given := .Values.topoDiscovery.master.controllers -}}
{{- $ofGangs := ternary (list) (list "nomination" "gang-objects") .Values.extender.enabled -}}
{{- ternary $given (concat (list "labels" "hypernodes" "annotations" "events") $ofGangs) (kindIs "slice" $given) | toJson -}}
{{- end }}

{{/* Labels of an object; (list $ "topo-master"). */}}
{{- define "topo.labels" -}}
{{- $root := index . 0 -}}
{{ include "topo.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end }}

{{/* What finds the pods of a program. Nothing of it may change: the selector of a Deployment is final. */}}
{{- define "topo.selector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/part-of: supernode-topology
{{- end }}

{{/* The image of a program: (list $ .Values.topoDiscovery.master). */}}
{{- define "topo.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index . 1).image -}}
{{- with $root.Values.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $image.name }}:{{ $image.version | default $root.Chart.AppVersion }}
{{- end }}

{{/* Nodes of a complete dragonfly. */}}
{{- define "topo.nodeNumber" -}}
{{- if eq .Values.topoDiscovery.mode "switchbox" -}}
{{ int64 .Values.topoDiscovery.switchbox.nodeNumber }}
{{- else -}}
{{ int64 .Values.topoDiscovery.dragonfly.nodeNumber }}
{{- end }}
{{- end }}

{{/* The vendor's switch for training, which the worker takes and does not obey. */}}
{{- define "topo.enableTraining" -}}
{{- if eq .Values.topoDiscovery.mode "switchbox" -}}
{{ .Values.topoDiscovery.switchbox.enableTraining }}
{{- else -}}
{{ .Values.topoDiscovery.dragonfly.enableTraining }}
{{- end }}
{{- end }}

{{/*
The log of a program, as JSON: (list $ .Values.topoDiscovery.master). Not by `merge`, which takes a
false for nothing said.
*/}}
{{- define "topo.log" -}}
{{- $log := deepCopy (index . 0).Values.log -}}
{{- range $name, $value := (index . 1).log }}{{ $_ := set $log $name $value }}{{ end -}}
{{- toJson $log -}}
{{- end }}

{{/* Flags of the log: (list $ .Values.topoDiscovery.master "topo-master"). */}}
{{- define "topo.logArgs" -}}
{{- $log := include "topo.log" . | fromJson -}}
- --log-level={{ $log.level }}
- --log-format={{ $log.format }}
{{- if $log.toFiles }}
- --log-file={{ $log.dir }}/{{ index . 2 }}.log
- --log-rotation-time={{ $log.rotationTime }}
- --log-max-age={{ $log.maxAge }}
{{- end }}
{{- end }}

{{/*
Flags of the master whose values are not empty, as settings.json lists them: (list $ "placement").
Helm reads a whole number of a file as a float, which would be written 1e+06.
*/}}
{{- define "topo.flags" -}}
{{- $root := index . 0 -}}
{{- range $row := index ($root.Files.Get "settings.json" | fromJson) (index . 1) -}}
{{- $value := $root.Values -}}
{{- range splitList "." $row.value }}{{ $value = index $value . }}{{ end -}}
{{- if $value }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $value = int64 $value }}{{ end }}{{ end }}
{{ printf "- %s=%v" $row.flag $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* The folder of a program's log files, empty where it logs to stdout: (list $ .Values.topoDiscovery.master). */}}
{{- define "topo.logFolder" -}}
{{- $log := include "topo.log" . | fromJson -}}
{{- if $log.toFiles }}{{ $log.dir }}{{ end -}}
{{- end }}

{{/* https where the API speaks TLS. */}}
{{- define "topo.apiScheme" -}}
{{- if and .Values.topoDiscovery.tls.secret (eq .Values.topoDiscovery.tls.scope "all") }}https{{ else }}http{{ end -}}
{{- end }}

{{/* The priority class of a program: (list $ .Values.topoDiscovery.master). */}}
{{- define "topo.priorityClassName" -}}
{{- $root := index . 0 -}}
{{- $class := $root.Values.topoDiscovery.priorityClass -}}
{{- (index . 1).priorityClassName | default (ternary $class.name "" $class.create) -}}
{{- end }}

{{/* A container that may do nothing: it fits the restricted Pod Security Standard. */}}
{{- define "topo.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "topo.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
# Secrets are mounted for this group to read.
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/*
Whether the masters ask the cluster manager, for groups or by a mapping for the fabric: "true" or "".
*/}}
{{- define "topo.managed" -}}
{{- $topo := .Values.topoDiscovery -}}
{{- $dumped := or (eq $topo.mode "fabric") (has "fabric" $topo.precedence) -}}
{{- $polled := and $dumped $topo.switchbox.clusterManagerAddress $topo.switchbox.clusterManagerMappingConfigMap -}}
{{- if or (eq $topo.mode "switchbox") (has "manager" $topo.precedence) $polled -}}true{{- end -}}
{{- end }}

{{/*
Whether the masters read dumps of a fabric: "true" or "".
*/}}
{{- define "topo.fabric" -}}
{{- $topo := .Values.topoDiscovery -}}
{{- if or (eq $topo.mode "fabric") (has "fabric" $topo.precedence) -}}
{{- if not (or $topo.fabricVolume $topo.fabricSweep.nodes (include "topo.managed" .)) -}}
{{- fail "topoDiscovery.fabricSweep.nodes and fabricVolume are empty: name hosts that run ibnetdiscover, the volume with its dumps, such as {persistentVolumeClaim: {claimName: fabric-dumps}}, or a manager of the fabric in switchbox.clusterManagerAddress and clusterManagerMappingConfigMap" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/*
Whether nodes sweep the fabric: "true" or "".
*/}}
{{- define "topo.sweepers" -}}
{{- if and (include "topo.enabled" .) .Values.topoDiscovery.fabricSweep.nodes -}}
{{- if not (include "topo.workers" .) -}}
{{- fail "topoDiscovery.fabricSweep.nodes needs the account of the workers, and in mode labels there are none" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/*
The programs that report to the masters, as words.
*/}}
{{- define "topo.reporters" -}}
{{- compact (list (and (include "topo.workers" .) "topo-worker") (and (include "topo.sweepers" .) "topo-sweeper")) | join " " -}}
{{- end }}

{{/*
The credentials as the Secret holds them: base64 of the value without the end of line that
`echo metax | base64` puts inside. Never shown in an error: it may be a password.
(list "clusterManagerUser" .Values.topoDiscovery.switchbox.clusterManagerUser)
*/}}
{{- define "topo.credential" -}}
{{- $name := index . 0 -}}
{{- $encoded := index . 1 | trim -}}
{{- if not $encoded -}}
{{- fail (printf "topoDiscovery.switchbox.%s is empty: the masters log in at the cluster manager; give base64 of the value, or clusterManagerSecret" $name) -}}
{{- end -}}
{{- if not (regexMatch "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$" $encoded) -}}
{{- fail (printf "topoDiscovery.switchbox.%s is no base64: give the output of `echo VALUE | base64`" $name) -}}
{{- end -}}
{{- $encoded | b64dec | trimSuffix "\n" | trimSuffix "\r" | b64enc -}}
{{- end }}

{{/*
The labels of the nodes that get a worker, as YAML.
*/}}
{{- define "topo.workerNodes" -}}
{{- toYaml (.Values.topoDiscovery.worker.nodeSelector | default (dict (printf "%s/gpu.installed" .Values.domain) "true")) -}}
{{- end }}

{{/*
"true" where the workers' container is privileged: as `worker.privileged` says, and with `auto` where
neither a runtime class nor a device of a device plugin lends it the devices.
*/}}
{{- define "topo.workerPrivileged" -}}
{{- $worker := .Values.topoDiscovery.worker -}}
{{- $lent := not (empty $worker.runtimeClassName) -}}
{{- range $name, $_ := ($worker.resources).limits }}{{ if contains "/" $name }}{{ $lent = true }}{{ end }}{{ end -}}
{{- if eq (toString $worker.privileged) "auto" }}{{ if not $lent }}true{{ end }}{{ else if $worker.privileged }}true{{ end -}}
{{- end }}
