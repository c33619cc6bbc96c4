{{/* The image of a program: (list . "core"). */}}
{{- define "image" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $of := printf "%s/svc-%s" $root.Values.images.registry $name -}}
{{- with index $root.Values.images.digests $name -}}
{{ $of }}@{{ . }}
{{- else -}}
{{ $of }}:{{ $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}
