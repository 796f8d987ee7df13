{{- define "hurtle.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hurtle.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hurtle.labels" -}}
{{ include "hurtle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The Secret of the certificate; empty: there is none. */}}
{{- define "hurtle.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled -}}
{{- include "hurtle.name" . }}-tls
{{- else -}}
{{- .Values.tls.secret -}}
{{- end -}}
{{- end -}}

{{/* hurtle.toml: the keys that the chart decides, then the values' part. */}}
{{- define "hurtle.config" -}}
listen = ["0.0.0.0:8080", "[::]:8080"]
{{- if .Values.tls.enabled }}
listen_tls = ["0.0.0.0:443", "[::]:443"]
http3 = false # the Service has no UDP port
{{- end }}
drain_delay = "{{ .Values.drainDelay }}s"
drain = "{{ .Values.drain }}s"
metrics = { listen = ["0.0.0.0:9100", "[::]:9100"] }

{{ if .Values.config -}}
{{ .Values.config }}
{{- else -}}
[access_log]
format = "json"
{{- if .Values.acme.enabled }}

[acme]
accept_terms = {{ .Values.acme.acceptTerms }}
storage = "/var/lib/hurtle/acme"
{{- with .Values.acme.email }}
email = {{ . | quote }}
{{- end }}
{{- end }}

[[site]]
default = true
{{- with .Values.tls.hosts }}
hosts = {{ toJson . }}
{{- end }}
{{- if .Values.acme.enabled }}

[site.tls]
certificate = "auto"
{{- else if .Values.tls.enabled }}

[site.tls]
certificate = "/etc/hurtle-tls/tls.crt"
key = "/etc/hurtle-tls/tls.key"
{{- end }}

[[site.mount]]
files = "/srv/www"
{{- end }}
{{- end -}}

{{- define "hurtle.check" -}}
{{- if and (include "hurtle.tlsSecret" .) (not .Values.tls.enabled) -}}
{{- fail "tls.certManager and tls.secret need tls.enabled" -}}
{{- end -}}
{{- if and .Values.tls.enabled (not (include "hurtle.tlsSecret" .)) (not .Values.acme.enabled) -}}
{{- fail "tls.enabled needs tls.certManager, tls.secret or acme.enabled" -}}
{{- end -}}
{{- if and (include "hurtle.tlsSecret" .) .Values.acme.enabled -}}
{{- fail "choose tls.certManager or tls.secret, or acme.enabled: not both" -}}
{{- end -}}
{{- if and .Values.acme.enabled (not .Values.config) (or (not .Values.tls.enabled) (not .Values.tls.hosts) (not .Values.acme.acceptTerms)) -}}
{{- fail "acme.enabled needs tls.enabled, tls.hosts and acme.acceptTerms" -}}
{{- end -}}
{{- if and .Values.tls.certManager.enabled (or (not .Values.tls.hosts) (not .Values.tls.certManager.issuer.name)) -}}
{{- fail "tls.certManager needs tls.hosts and tls.certManager.issuer.name" -}}
{{- end -}}
{{- end -}}

{{- define "hurtle.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}
