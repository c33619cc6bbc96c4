{{/* The lines of an env file as a map, JSON. */}}
{{- define "lines" -}}
{{- $env := dict -}}
{{- range . -}}
{{- if and . (not (hasPrefix "#" .)) -}}
{{- $pair := splitn "=" 2 . -}}
{{- $_ := set $env $pair._0 $pair._1 -}}
{{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* Core's settings: those of core.env, what the values choose, and `core.env` of the values above both. */}}
{{- define "core.env" -}}
{{- $directory := .Values.directory -}}
{{- $env := include "lines" (.Files.Lines "files/core.env") | fromJson -}}
{{- $_ := set $env "SVC_TENANT_ID" .Values.tenantId -}}
{{- $_ := set $env "SVC_DIRECTORY_PROVIDER" $directory.provider -}}
{{- $_ := set $env "SVC_DIRECTORY_DOMAIN" $directory.domain -}}
{{- $_ := set $env "SVC_ADVERTISED_CORE_URL" (printf "https://%s" .Values.coreHost) -}}
{{- $audience := printf "https://%s" .Values.coreHost -}}
{{- $_ := set $env "SVC_WORKLOAD_ISSUERS" (get $env "SVC_WORKLOAD_ISSUERS" | replace "https://core.example.com" $audience) -}}
{{- if eq $directory.provider "google" -}}
{{- $_ := set $env "SVC_DIRECTORY_DELEGATE_EMAIL" (required "directory.delegateEmail: the super admin whom the service account impersonates" $directory.delegateEmail) -}}
{{- else -}}
{{- $_ := unset (unset $env "SVC_DIRECTORY_DELEGATE_EMAIL") "SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE" -}}
{{- if eq $directory.provider "scim" -}}
{{- $_ := set $env "SVC_DIRECTORY_SCIM_TOKEN_FILE" "/run/svc/scim-token" -}}
{{- $_ := set $env "SVC_DIRECTORY_SCIM_SUBJECT" $directory.scimSubject -}}
{{- else -}}
{{- $_ := set $env "SVC_DIRECTORY_FILE" "/run/svc/directory.yaml" -}}
{{- end -}}
{{- end -}}
{{- toYaml (merge (deepCopy .Values.core.env) $env) -}}
{{- end -}}

{{/* Web's settings, in the same way. */}}
{{- define "web.env" -}}
{{- $env := include "lines" (.Files.Lines "files/web.env") | fromJson -}}
{{- $_ := set $env "SVC_TENANT_ID" .Values.tenantId -}}
{{- $_ := set $env "WEBAUTH_URL" (printf "https://%s" .Values.fleetHost) -}}
{{- $_ := set $env "IDP_ISSUER" .Values.identityProvider.issuer -}}
{{- $_ := set $env "IDP_CLIENT_ID" .Values.identityProvider.clientId -}}
{{- toYaml (merge (deepCopy .Values.web.env) $env) -}}
{{- end -}}

{{/* The files of a program's Secret: those that its settings name below /run/svc, as JSON. */}}
{{- define "files" -}}
{{- $names := list -}}
{{- range $path := values . -}}
{{- if hasPrefix "/run/svc/" $path -}}
{{- $names = append $names (trimPrefix "/run/svc/" $path) -}}
{{- end -}}
{{- end -}}
{{- toJson ($names | uniq | sortAlpha) -}}
{{- end -}}
