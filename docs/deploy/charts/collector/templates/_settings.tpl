{{/* The files of /config. */}}
{{- define "collector.env" -}}
collector.yaml: {{ toYaml .Values.config | quote }}
server-ca.crt: {{ required "serverCa: the PEM of the CA of core's certificates (--set-file serverCa=server-ca.crt)" .Values.serverCa | quote }}
{{- end -}}
