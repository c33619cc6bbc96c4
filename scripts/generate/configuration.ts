import { coreFileForms, coreVariables } from "../../functions/config.ts";
import { webFileForms, webVariables } from "../../ui/bff/config.ts";
import { markdownTable } from "./markdown.ts";

/** The meaning of each of core's variables; the compiler requires a line for each. */
const coreMeanings: Readonly<Record<keyof typeof coreVariables, string>> = {
  PORT: "TCP port of the HTTP listener (operators, enrollment, ops); 0: a free one",
  SVC_HTTP_HOST: "address that the HTTP listener binds to; unset: every interface",
  SVC_DATABASE_URL: "`postgres://user:password@host:port/database`, PostgreSQL 15 or later; migrations run at boot",
  SVC_TENANT_ID: "UUID of the deployment; stored at the first start, after which core does not start with another",
  SVC_AUTH_TOKEN_SECRET: "verifies bridge tokens (HS256), at least 32 bytes; the same in web",
  SVC_DIRECTORY_DOMAIN: "directory customer domain: addresses in it may sign in, and its role groups define scopes",
  SVC_DIRECTORY_DELEGATE_EMAIL: "directory super admin whom the service account impersonates",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE:
    "path of the service account's JSON, not readable by group or world; read at each sync",
  SVC_DIRECTORY_SYNC_INTERVAL: "period of the directory pull; at least 60s",
  SVC_DIRECTORY_API_URL: "prefix of `/admin/directory/v1/…`; unset: Google's; `http` on loopback only",
  SVC_DIRECTORY_ALLOW_MASS_REMOVAL:
    "applies at once that more than half of more than ten people are missing ([directory.md](directory.md))",
  SVC_OPS_BEARER_TOKEN: "when set, the ops endpoints require it as bearer token",
  SVC_TRUST_LOOPBACK_OPS: "without a token: ops access for direct callers on loopback",
  SVC_LICENSE: "license (a JWT); unset: community edition, unlimited",
  SVC_LICENSE_PUBLIC_KEY_FILE: "PEM of the key that signs licenses; required with `SVC_LICENSE`",
  SVC_INGEST_GRPC_ADDR: "`host:port` of the ingest listener (HTTP/2, mTLS); unset: no ingest",
  SVC_INGEST_SERVER_CERT_FILE:
    "server certificate; collectors expect its SAN (`forwarder.mtls.server_name`); required with ingest",
  SVC_INGEST_SERVER_KEY_FILE: "its key, not readable by group or world; required with ingest",
  SVC_INGEST_CLIENT_CA_FILE: "CA bundle that verifies collectors; required with ingest",
  SVC_INGEST_MAX_FRAME_BYTES: "largest frame, compressed or not; at most 100,000 envelopes and attributes in any case",
  SVC_INGEST_MAX_PAYLOAD_BYTES: "largest payload of one envelope",
  SVC_INGEST_MAX_HOST_ID_BYTES: "longest identity",
  SVC_INGEST_SAFE_RAW_DISCARD_OTEL_SPAN_NAMES:
    "exact span names, comma-separated: an `otel_span` envelope in which every span matches is consumed and not stored",
  SVC_INGEST_REQUIRE_ENROLLMENT: "ingest also requires an active certificate row and an active identity row",
  SVC_INGEST_RETENTION_DAYS: "days that envelopes are kept; 0: forever",
  SVC_ENROLLMENT_SIGNER_MODE: "`local-ca` or `external-command`; unset: derived from the settings below",
  SVC_ENROLLMENT_SIGNER_COMMAND: "absolute path of the signer (external-command)",
  SVC_ENROLLMENT_CA_CERT_FILE: "CA certificate (local-ca) or trust bundle of the signer's output",
  SVC_ENROLLMENT_CA_KEY_FILE: "CA key (local-ca only), not readable by group or world",
  SVC_ENROLLMENT_CLIENT_CERT_HEADER:
    "header in which a trusted proxy sends the URL-escaped client certificate; unset: no header is read",
  SVC_HEARTBEAT_INTERVAL: "how often collectors send heartbeats",
  SVC_COLLECTOR_MIN_VERSION: "collectors below this version are `unsupported_version`",
  SVC_LOG_LEVEL: "`debug`, `info`, `warn` or `error`",
};

/** The same for web. */
const webMeanings: Readonly<Record<keyof typeof webVariables, string>> = {
  PORT: "TCP port of the HTTP listener; 0: a free one",
  SVC_HTTP_HOST: "address that the HTTP listener binds to; unset: every interface",
  WEBAUTH_URL:
    "public URL of the interface, or the redirect URI under it: its origin is used. `https://` makes cookies `Secure` and sends HSTS",
  WEBAUTH_SECRET: "signs sessions (HS256), at least 32 bytes; a change ends all sessions",
  SESSION_TTL: "lifetime of a session from the sign-in; nothing extends it",
  IDP_ISSUER: "issuer of the OpenID Connect provider, as in its discovery document; https, or http on loopback",
  IDP_NAME: "name of the provider on the sign-in page; unset: Google, Microsoft, Okta, or the issuer's host",
  IDP_CLIENT_ID: "OAuth 2.0 client id",
  IDP_CLIENT_SECRET: "its secret, sent with `client_secret_basic`",
  SVC_API_URL: "base URL of core's API, `/v1` included, as web reaches it",
  SVC_AUTH_TOKEN_SECRET: "signs bridge tokens (HS256), at least 32 bytes; the same in core",
  SVC_DATABASE_URL: "core's database, as a role that may read two tables (below)",
  SVC_TENANT_ID: "UUID of the deployment; the same in core",
  SVC_CHAT_ENABLED: "`false` hides chat",
  SVC_INFERENCE_PROVIDER:
    "`openai`, `openai-compatible`, `litellm`, `anthropic` or `mock`; with it, or with a model, chat is shown",
  SVC_INFERENCE_API_KEY: "for core; web does not use it",
  SVC_INFERENCE_BASE_URL: "for core; web does not use it",
  SVC_INFERENCE_CHAT_MODEL: "when set, chat is shown, as core has it then",
  SVC_LOG_LEVEL: "`debug`, `info`, `warn` or `error`; `debug` logs each request",
};

const defaultOf = (schema: object): string => {
  if (!("default" in schema)) return "required";
  return typeof schema.default === "string" ? `\`${schema.default}\`` : "unset";
};

const tableOf = (variables: object, fileForms: readonly string[], meanings: Readonly<Record<string, string>>): string =>
  markdownTable(
    ["variable", "default", "meaning"],
    Object.entries(variables).map(([name, schema]) => [
      `\`${name}\`${fileForms.includes(name) ? " (`_FILE`)" : ""}`,
      defaultOf(schema),
      meanings[name] ?? "",
    ]),
  );

/** Renders the table of core's variables from the schema that parses them. */
export const renderCoreConfiguration = (): string => tableOf(coreVariables, coreFileForms, coreMeanings);

/** Renders the table of web's variables from the schema that parses them. */
export const renderWebConfiguration = (): string => tableOf(webVariables, webFileForms, webMeanings);
