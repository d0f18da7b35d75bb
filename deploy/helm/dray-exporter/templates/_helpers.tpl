{{/* The same file in every chart of dray. */}}

{{- define "dray.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if hasPrefix (printf "%s-" .Release.Name) .Chart.Name -}}
{{- .Chart.Name -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "dray.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dray.labels" -}}
{{ include "dray.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "dray.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Where a pod of ours may connect to: the API server. It is found by its address, without DNS. */}}
{{- define "dray.egress" -}}
egress:
  - ports:
{{- range .Values.networkPolicy.apiServerPorts }}
      - protocol: TCP
        port: {{ . }}
{{- end }}
{{- end }}

{{/* Who may connect to a pod of ours: those who read its metrics. */}}
{{- define "dray.ingress" -}}
ingress:
  - ports:
      - protocol: TCP
        port: {{ .Values.metrics.port }}
{{- with .Values.networkPolicy.metricsFrom }}
    from: {{- toYaml . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "dray.probes" -}}
livenessProbe:
  httpGet:
    path: /livez
    port: metrics
    scheme: {{ .Values.metrics.tls | default false | ternary "HTTPS" "HTTP" }}
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
    scheme: {{ .Values.metrics.tls | default false | ternary "HTTPS" "HTTP" }}
{{- end }}
