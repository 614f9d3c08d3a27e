{{/* The image, by digest where there is one. */}}
{{- define "regroup.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else if $image.tag -}}
{{ $image.repository }}:{{ $image.tag }}
{{- else -}}
{{ $image.repository }}
{{- end -}}
{{- end -}}
