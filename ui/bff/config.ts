import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import {
  ConfigError,
  composeVariables,
  type Environment,
  namesOf,
  parseVariables,
  type VariableFile,
  warnOfShadowed,
  warnOfUnknown,
} from "#kit/env.ts";
import { tracesConfigOf, tracesFaults, tracesVariables } from "#kit/tracing/config.ts";
import {
  AbsolutePathVariable,
  DatabaseUrlVariable,
  DurationVariable,
  HmacKeyVariable,
  HostVariable,
  IntegerVariable,
  LogLevelVariable,
  NetworksVariable,
  SecretVariable,
  TextVariable,
  UuidVariable,
  WebUrlVariable,
} from "#kit/variables.ts";

const plainUrl = v.pipe(
  WebUrlVariable,
  v.check((value) => !/[?#@]/.test(value), "must hold no user, query or fragment"),
);

/** One schema per variable, so that every fault is reported with its variable's name. */
export const webVariables = {
  /** TCP port of the HTTP listener; 0: a free one */
  PORT: v.optional(IntegerVariable(0, 65535), "3000"),
  /** address that the HTTP listener binds to; unset: every interface */
  SVC_HTTP_HOST: v.optional(HostVariable),
  /** CIDRs of the proxies before web, whose `X-Forwarded-For` names the client; unset: none */
  SVC_TRUSTED_PROXIES: v.optional(NetworksVariable),
  /**
   * public URL of the interface, or the redirect URI under it: its origin is used. `https://`
   * makes cookies `Secure` and sends HSTS
   */
  WEBAUTH_URL: plainUrl,
  /** signs sessions (HS256), at least 32 bytes; [rotate.md](rotate.md#secrets-of-core-and-web) */
  WEBAUTH_SECRET: HmacKeyVariable,
  /** a second secret whose sessions web accepts, during a rotation ([rotate.md](rotate.md#secrets-of-core-and-web)) */
  WEBAUTH_SECRET_PREVIOUS: v.optional(HmacKeyVariable),
  /**
   * lifetime of a session from the sign-in, as `30m` or `7d`; nothing extends it, and a stolen
   * cookie works so long
   */
  SESSION_TTL: v.optional(
    v.pipe(
      DurationVariable(1),
      // A JavaScript date can represent the expiry.
      v.maxValue(36_500 * 86_400, "must be at most 36500d"),
    ),
    "30m",
  ),
  /**
   * issuer of the OpenID Connect provider, as in its discovery document; https, or http on
   * loopback
   */
  IDP_ISSUER: v.optional(
    v.pipe(
      plainUrl,
      v.check(isConfidentialUrl, "must be an https URL, or an http one on loopback"),
    ),
    "https://accounts.google.com",
  ),
  /**
   * name of the provider on the sign-in page; unset: Google, Microsoft, Okta, or the issuer's
   * host
   */
  IDP_NAME: v.optional(v.pipe(TextVariable, v.maxLength(60, "must be at most 60 characters"))),
  /** OAuth 2.0 client id */
  IDP_CLIENT_ID: TextVariable,
  /** its secret, sent with `client_secret_basic` */
  IDP_CLIENT_SECRET: SecretVariable,
  // Only claims that never change and are never reassigned to another person.
  /**
   * claim of the id_token that the directory knows the person by: `sub`, or `oid` for Entra ID
   * ([scim.md](scim.md))
   */
  IDP_SUBJECT_CLAIM: v.optional(v.picklist(["sub", "oid"], "must be sub or oid"), "sub"),
  /** base URL of core's API, `/v1` included, as web reaches it */
  SVC_API_URL: v.pipe(
    plainUrl,
    v.transform((value) => value.replace(/(?<!\/)\/+$/, "")),
    v.endsWith("/v1", "must end in /v1"),
  ),
  /** signs bridge tokens (HS256), at least 32 bytes; the same in core */
  SVC_AUTH_TOKEN_SECRET: HmacKeyVariable,
  /** core's database, as [a role that may read two tables](deploy.md#the-database-role) */
  SVC_DATABASE_URL: DatabaseUrlVariable,
  /** absolute path of a program that prints that role's password, as in core */
  SVC_DATABASE_PASSWORD_COMMAND: v.optional(AbsolutePathVariable),
  /** UUID of the deployment; the same in core */
  SVC_TENANT_ID: UuidVariable,
  /**
   * from SIGTERM, when `/readyz` turns 503, until web closes its listener; at most 300s
   * ([deploy.md](deploy.md#stop-a-replica))
   */
  SVC_SHUTDOWN_DELAY: v.optional(DurationVariable(0, 300), "1s"),
  ...tracesVariables,
  /** `debug`, `info`, `warn` or `error`; `debug` logs each request */
  SVC_LOG_LEVEL: v.optional(LogLevelVariable, "info"),
};

/** Variables of core and of `svc-server export`, which may be in the same env file. */
const coreVariables =
  /^SVC_(DIRECTORY|INGEST|ENROLLMENT|LICENSE|OPS|TRUST|HEARTBEAT|COLLECTOR|OTELCOL|CHAT|INFERENCE|WORKLOAD|ADVERTISED|EXPORT|COMPLETENESS|ACCOUNT|QUEUE|STATE|WATCH|MANAGEMENT)_|^SVC_(LICENSE(_FILE)?|AUTH_TOKEN_SECRET_PREVIOUS(_FILE)?|DATABASE_SESSION_URL(_FILE)?|ON_CLOUDFLARE)$/;

/** A parsed configuration and its warnings. */
interface ParsedWebConfig {
  config: WebConfig;
  warnings: readonly string[];
}

/** Parses web's environment (docs/configuration.md). Throws one `ConfigError` that names every invalid variable and quotes no value. */
export const parseWebConfig = (
  env: Environment,
  readFile: (path: string) => string,
): ParsedWebConfig => {
  const {
    env: resolved,
    faults,
    values,
    files,
  } = parseVariables(env, { variables: webVariables, readFile });
  tracesFaults(resolved, faults);
  if (values === undefined || faults.length > 0) throw new ConfigError(faults);

  const config = configOf(values, files);
  return {
    config: Object.freeze(config),
    warnings: [...warnOfVariables(env), ...warnOfSecrets(config, values)],
  };
};

type Values = NonNullable<ReturnType<typeof parseVariables<typeof webVariables>>["values"]>;

const configOf = (values: Values, files: readonly VariableFile[]) => {
  const { origin, protocol } = new URL(values.WEBAUTH_URL);
  return {
    /** The files of variables, which are followed. */
    files,
    port: values.PORT,
    /** The address that the listener binds to; null for every interface. */
    httpHost: values.SVC_HTTP_HOST ?? null,
    /** The networks of the proxies before web, whose `X-Forwarded-For` names the client. */
    trustedProxies: values.SVC_TRUSTED_PROXIES ?? [],
    /** Scheme, host and port under which browsers reach web; the only accepted `Origin`. */
    origin,
    /** Whether browsers use https: cookies are then `Secure` and prefixed, and HSTS is sent. */
    secure: protocol === "https:",
    /** `previous` is accepted beside `secret`, and signs nothing: the previous secret, or the next one. */
    sessionSecrets: {
      secret: values.WEBAUTH_SECRET,
      previous: values.WEBAUTH_SECRET_PREVIOUS ?? null,
    },
    sessionTtlSeconds: values.SESSION_TTL,
    /** Web's OpenID Connect client. */
    identityProvider: {
      /** Compared byte for byte with the issuer in the discovery document. */
      issuer: values.IDP_ISSUER,
      /** Its name on the sign-in page. */
      name: values.IDP_NAME ?? providerName(values.IDP_ISSUER),
      clientId: values.IDP_CLIENT_ID,
      clientSecret: values.IDP_CLIENT_SECRET,
      /** The claim of the id_token that is the person's subject in the directory. */
      subjectClaim: values.IDP_SUBJECT_CLAIM,
    },
    /** Base of core's API with `/v1` and without a slash at its end. */
    apiUrl: values.SVC_API_URL,
    authTokenSecret: values.SVC_AUTH_TOKEN_SECRET,
    databaseUrl: values.SVC_DATABASE_URL,
    databaseSessionUrl: null,
    databasePasswordCommand: values.SVC_DATABASE_PASSWORD_COMMAND ?? null,
    tenantId: values.SVC_TENANT_ID,
    /** From SIGTERM, when web is no longer ready, until its listener closes. */
    shutdownDelaySeconds: values.SVC_SHUTDOWN_DELAY,
    /** Null: nothing is recorded. */
    traces: tracesConfigOf(values),
    logLevel: values.SVC_LOG_LEVEL,
  };
};

/** Web's configuration: parsed once, complete, frozen. */
export type WebConfig = ReturnType<typeof configOf>;

const warnOfVariables = (env: Environment): string[] => {
  const known = [...namesOf(webVariables), ...composeVariables];
  const own = Object.fromEntries(Object.entries(env).filter(([name]) => !coreVariables.test(name)));
  return [
    ...["SVC_", "WEBAUTH_", "IDP_", "SESSION_"].flatMap((prefix) =>
      warnOfUnknown(own, prefix, known),
    ),
    ...warnOfShadowed(env, webVariables),
  ];
};

const warnOfSecrets = (config: WebConfig, { WEBAUTH_URL: url }: Values): string[] => [
  ...(config.secure || isConfidentialUrl(url)
    ? []
    : ["WEBAUTH_URL is not https: anybody on the network path can take over sessions"]),
  ...(config.sessionSecrets.secret.reveal() === config.authTokenSecret.reveal()
    ? ["WEBAUTH_SECRET and SVC_AUTH_TOKEN_SECRET are the same: a leak of one is a leak of both"]
    : []),
];

const providerNames: readonly (readonly [RegExp, string])[] = [
  [/(^|\.)google\.com$/, "Google"],
  [/(^|\.)(microsoftonline\.com|windows\.net)$/, "Microsoft"],
  [/(^|\.)okta(preview)?\.com$/, "Okta"],
];

const providerName = (issuer: string) => {
  const { hostname } = new URL(issuer);
  return providerNames.find(([pattern]) => pattern.test(hostname))?.[1] ?? hostname;
};
