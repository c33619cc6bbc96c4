{{/* The files of /config. */}}
{{- define "collector.env" -}}
collector.yaml: {{ toYaml .Values.config | quote }}
server-ca.crt: {{ required "serverCa: the PEM of the CA of core's certificates (--set-file serverCa=server-ca.crt)" .Values.serverCa | quote }}
{{- end -}}
{{/* Whether a source asks for labels of pods. */}}
{{- define "pod-labels" -}}
{{- range .Values.config.sources }}{{ if .pod_labels }}true{{ end }}{{ end -}}
{{- end -}}
