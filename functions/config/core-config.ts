import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import {
  ConfigError,
  type ConfigFault,
  composeVariables,
  type Environment,
  namesOf,
  parseVariables,
  requireWith,
  type ValuesOf,
  type VariableFile,
  warnOfShadowed,
  warnOfUnknown,
} from "#kit/env.ts";
import { tracesConfigOf, tracesFaults, tracesVariables } from "#kit/tracing/config.ts";
import {
  AbsolutePathVariable,
  AddressVariable,
  BooleanVariable,
  DatabaseUrlVariable,
  DurationVariable,
  HmacKeyVariable,
  HostVariable,
  IntegerVariable,
  LogLevelVariable,
  readOnce,
  SecretVariable,
  TextVariable,
  UuidVariable,
} from "#kit/variables.ts";
import { isNoteKeyName } from "#proto/completeness/signed-note.ts";
import {
  chatConfigOf,
  chatFaults,
  chatVariables,
  chatWarnings,
  ignoreDisabledChat,
} from "./chat-config.ts";
import {
  directoryConfigFaults,
  directoryConfigOf,
  directoryVariables,
} from "./directory-config.ts";
import {
  storeConfigOf,
  storeFaults,
  storeKeysOf,
  storeVariables,
  storeWarnings,
} from "./store-config.ts";
import { watchVariables } from "./watch-config.ts";
import { workloadVariables } from "./workload-config.ts";

/** One schema per variable of the signer. */
const signerVariables = {
  /** `local-ca` or `external-command`; unset: derived from the settings below */
  SVC_ENROLLMENT_SIGNER_MODE: v.optional(
    v.picklist(["local-ca", "external-command"], "must be local-ca or external-command"),
  ),
  /** absolute path of the signer (external-command) */
  SVC_ENROLLMENT_SIGNER_COMMAND: v.optional(AbsolutePathVariable),
  /** CA certificate (local-ca) or trust bundle of the signer's output */
  SVC_ENROLLMENT_CA_CERT_FILE: v.optional(TextVariable),
  /** CA key (local-ca only), not readable by group or world */
  SVC_ENROLLMENT_CA_KEY_FILE: v.optional(TextVariable),
};

/** Returns the signer of an environment; null without one, and after adding the faults between its variables. */
const signerConfigOf = (env: Environment, faults: ConfigFault[]) => {
  const mode = env.SVC_ENROLLMENT_SIGNER_MODE;
  const command = env.SVC_ENROLLMENT_SIGNER_COMMAND;
  const caCertFile = env.SVC_ENROLLMENT_CA_CERT_FILE;
  const caKeyFile = env.SVC_ENROLLMENT_CA_KEY_FILE;
  const fault = (variable: string, message: string) => {
    faults.push({ variable, message });
  };
  if (!mode && !command && !caCertFile && !caKeyFile) return null;
  const external = mode === "external-command" || (mode !== "local-ca" && command !== undefined);
  if (external) {
    if (caKeyFile) fault("SVC_ENROLLMENT_CA_KEY_FILE", "must not be set in external-command mode");
    if (!command) fault("SVC_ENROLLMENT_SIGNER_COMMAND", "is required in external-command mode");
    if (!caCertFile)
      fault("SVC_ENROLLMENT_CA_CERT_FILE", "is required: the trust bundle of the signer's output");
    return command && caCertFile && !caKeyFile
      ? { kind: "external-command" as const, command, caCertFile }
      : null;
  }
  if (command) fault("SVC_ENROLLMENT_SIGNER_COMMAND", "must not be set in local-ca mode");
  if (!caCertFile) fault("SVC_ENROLLMENT_CA_CERT_FILE", "is required in local-ca mode");
  if (!caKeyFile) fault("SVC_ENROLLMENT_CA_KEY_FILE", "is required in local-ca mode");
  return caCertFile && caKeyFile && !command
    ? { kind: "local-ca" as const, caCertFile, caKeyFile }
    : null;
};

/** How certificates are signed. Absent: the routes for collectors do not exist. */
export type SignerConfig = NonNullable<ReturnType<typeof signerConfigOf>>;

/** One schema per variable of the log of statements. */
const completenessVariables = {
  /**
   * Ed25519 private key (PKCS#8, PEM) that signs the [log of statements](completeness-proof.md);
   * unset: it is not signed
   */
  SVC_COMPLETENESS_KEY_FILE: v.optional(
    v.pipe(TextVariable, readOnce("a new key needs a new `SVC_COMPLETENESS_ORIGIN`")),
  ),
  /**
   * name of that log and of its key, without spaces and `+`; unset: the host of
   * `SVC_ADVERTISED_CORE_URL` and `/completeness`
   */
  SVC_COMPLETENESS_ORIGIN: v.optional(
    v.pipe(
      TextVariable,
      v.check(isNoteKeyName, "must have no spaces and no +, for example core.example/completeness"),
    ),
  ),
};

/** Returns the key and the name of the log of statements; null without a key, and after adding the fault of one whose log has no name. */
const completenessConfigOf = (env: Environment, faults: ConfigFault[]) => {
  const keyFile = env.SVC_COMPLETENESS_KEY_FILE;
  if (!keyFile) return null;
  const address = env.SVC_ADVERTISED_CORE_URL;
  const host = address !== undefined && URL.canParse(address) ? new URL(address).host : undefined;
  const origin = env.SVC_COMPLETENESS_ORIGIN ?? (host && `${host}/completeness`);
  if (!origin)
    faults.push({
      variable: "SVC_COMPLETENESS_ORIGIN",
      message:
        "is required with SVC_COMPLETENESS_KEY_FILE while SVC_ADVERTISED_CORE_URL is not set",
    });
  return origin ? { keyFile, origin } : null;
};

/** Headers with a meaning for clients, proxies or core: the certificate's must be another. */
const meaningfulHeader = new RegExp(
  `^(?:${[
    "(?:accept|access-control|cf|connect|content|grpc|if|last|proxy|sec|x-forwarded|x-http)(?:-.*)?|te|trailer|transfer-encoding",
    "authorization|cookie|host|forwarded|via|x-real-ip|x-request-id|user-agent|referer|origin|cache-control|connection|keep-alive",
    "date|expect|idempotency-key|range|trace.*|upgrade.*|baggage",
  ].join("|")})$`,
);

const spanNames = v.pipe(
  v.string(),
  v.transform((value) => value.split(",").map((name) => name.trim())),
  v.check(
    (names) => names.every((name) => name !== ""),
    "must not have an empty entry; check leading and trailing commas",
  ),
);

/** One schema per variable, so that every fault names its variable. */
const VersionVariable = v.pipe(
  TextVariable,
  v.regex(/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/, "must be a SemVer version, for example 1.4.0"),
);

export const coreVariables = {
  /** TCP port of the HTTP listener (operators, enrollment, ops); 0: a free one */
  PORT: v.optional(IntegerVariable(0, 65535), "8080"),
  /** address that the HTTP listener binds to; unset: every interface */
  SVC_HTTP_HOST: v.optional(HostVariable),
  /**
   * `postgres://user:password@host:port/database`, PostgreSQL 15 or later; migrations run at boot
   */
  SVC_DATABASE_URL: DatabaseUrlVariable,
  /**
   * the same database without a pooler in transaction mode
   * ([database.md](database.md#poolers)); unset: `SVC_DATABASE_URL`
   */
  SVC_DATABASE_SESSION_URL: v.optional(DatabaseUrlVariable),
  /**
   * absolute path of a program that prints the database's password, for each new connection; it
   * replaces the URL's ([database.md](database.md#passwords))
   */
  SVC_DATABASE_PASSWORD_COMMAND: v.optional(AbsolutePathVariable),
  /**
   * UUID of the deployment; stored at the first start, after which core does not start with
   * another
   */
  SVC_TENANT_ID: UuidVariable,
  /** verifies bridge tokens (HS256), at least 32 bytes; the same in web */
  SVC_AUTH_TOKEN_SECRET: HmacKeyVariable,
  /** a second secret that core accepts, during a rotation ([rotate.md](rotate.md#secrets-of-core-and-web)) */
  SVC_AUTH_TOKEN_SECRET_PREVIOUS: v.optional(HmacKeyVariable),
  ...directoryVariables,
  ...workloadVariables,
  /** when set, the ops endpoints require it as bearer token */
  SVC_OPS_BEARER_TOKEN: v.optional(SecretVariable),
  /** without a token: ops access for direct callers on loopback */
  SVC_TRUST_LOOPBACK_OPS: v.optional(BooleanVariable, "false"),
  /** license (a JWT); unset: community edition, unlimited */
  SVC_LICENSE: v.optional(SecretVariable),
  /** PEM of the key that signs licenses; required with `SVC_LICENSE` */
  SVC_LICENSE_PUBLIC_KEY_FILE: v.optional(
    v.pipe(TextVariable, readOnce("it decides which licenses are valid")),
  ),
  /** `host:port` or `[IPv6]:port` of the ingest listener (HTTP/2, mTLS); unset: no ingest */
  SVC_INGEST_GRPC_ADDR: v.optional(AddressVariable),
  /**
   * server certificate; collectors expect its SAN (`forwarder.mtls.server_name`); required with
   * ingest
   */
  SVC_INGEST_SERVER_CERT_FILE: v.optional(TextVariable),
  /** its key, not readable by group or world; required with ingest */
  SVC_INGEST_SERVER_KEY_FILE: v.optional(TextVariable),
  /** CA bundle that verifies collectors; required with ingest */
  SVC_INGEST_CLIENT_CA_FILE: v.optional(TextVariable),
  /**
   * authorities by which hosts verify the ingest listener, PEM: core gives them to hosts
   */
  SVC_INGEST_CA_BUNDLE_FILE: v.optional(TextVariable),
  /** largest frame, compressed or not; at most 100,000 envelopes and attributes in any case */
  SVC_INGEST_MAX_FRAME_BYTES: v.optional(IntegerVariable(1024, 256 * 1024 * 1024), "4194304"),
  /** largest payload of one envelope */
  SVC_INGEST_MAX_PAYLOAD_BYTES: v.optional(IntegerVariable(1, 256 * 1024 * 1024), "4194304"),
  /** longest identity */
  SVC_INGEST_MAX_HOST_ID_BYTES: v.optional(IntegerVariable(1, 2048), "253"),
  /**
   * exact span names, comma-separated: an `otel_span` envelope in which every span matches is
   * consumed and not stored
   */
  SVC_INGEST_SAFE_RAW_DISCARD_OTEL_SPAN_NAMES: v.optional(spanNames),
  /** ingest also requires an active certificate row and an active identity row */
  SVC_INGEST_REQUIRE_ENROLLMENT: v.optional(BooleanVariable, "false"),
  /** days that envelopes are kept; 0: forever */
  SVC_INGEST_RETENTION_DAYS: v.optional(IntegerVariable(0, 3650), "30"),
  /** days that the states of hosts' hours are kept */
  SVC_ACCOUNT_RETENTION_DAYS: v.optional(IntegerVariable(2, 3650), "400"),
  /**
   * days after which a queue that core no longer sees is lost: its open hours stay incomplete,
   * later ones do without it
   */
  SVC_QUEUE_LOST_AFTER_DAYS: v.optional(IntegerVariable(1, 400), "7"),
  /** days that the history of the fleet is kept ([history.md](history.md)) */
  SVC_STATE_RETENTION_DAYS: v.optional(IntegerVariable(1, 400), "90"),
  /**
   * TLS handshakes that a remote address may start in a second, ten times as many at once: raise
   * it behind a proxy that hides the hosts' addresses ([scale](scale.md#after-an-outage))
   */
  SVC_INGEST_HANDSHAKES_PER_ADDRESS: v.optional(IntegerVariable(1, 10_000), "50"),
  ...storeVariables,
  ...signerVariables,
  ...completenessVariables,
  /**
   * header in which a trusted proxy sends the URL-escaped client certificate; unset: no header is
   * read
   */
  SVC_ENROLLMENT_CLIENT_CERT_HEADER: v.optional(
    v.pipe(
      TextVariable,
      v.regex(/^[A-Za-z0-9-]{1,64}$/, "must be a header name of letters, digits and hyphens"),
      v.toLowerCase(),
      v.check(
        (name) => !meaningfulHeader.test(name),
        "must be a header without another meaning, such as X-Client-Cert",
      ),
    ),
  ),
  /**
   * URL at which hosts reach core, without `/v1`: fills in the command that enrolls them
   * ([svc-admin](admin.md#a-new-fleet))
   */
  SVC_ADVERTISED_CORE_URL: v.optional(
    v.pipe(
      TextVariable,
      v.check(isConfidentialUrl, "must be an https:// URL, or http:// on loopback"),
    ),
  ),
  /** `host:port` at which hosts reach the ingest listener: fills in the same command */
  SVC_ADVERTISED_INGEST_ADDR: v.optional(AddressVariable),
  /**
   * authorities by which hosts verify `management.core_url`, PEM: core gives them to hosts
   */
  SVC_MANAGEMENT_CA_BUNDLE_FILE: v.optional(TextVariable),
  /** how often collectors send heartbeats */
  SVC_HEARTBEAT_INTERVAL: v.optional(DurationVariable(1), "60s"),
  /** collectors below this version are `unsupported_version` */
  SVC_COLLECTOR_MIN_VERSION: v.optional(VersionVariable),
  /** agents that speak OpAMP below this version are `unsupported_version` */
  SVC_OTELCOL_MIN_VERSION: v.optional(VersionVariable),
  ...chatVariables,
  ...watchVariables,
  ...tracesVariables,
  /**
   * worker only: it runs on Cloudflare, whose `CF-Connecting-IP` is the caller's address; else no
   * address is known
   */
  SVC_ON_CLOUDFLARE: v.optional(BooleanVariable, "false"),
  /**
   * from SIGTERM, when `/readyz` turns 503, until core closes its listeners; at most 300s
   * ([deploy.md](deploy.md#stop-a-replica))
   */
  SVC_SHUTDOWN_DELAY: v.optional(DurationVariable(0, 300), "1s"),
  /** `debug`, `info`, `warn` or `error` */
  SVC_LOG_LEVEL: v.optional(LogLevelVariable, "info"),
};

/** The variables of the same environment that web or Compose reads. */
export const variablesOfOthers: readonly string[] = [
  "SVC_API_URL",
  "SVC_TRUSTED_PROXIES",
  ...composeVariables,
];

/** A parsed configuration, and warnings for the operator. */
interface ParsedCoreConfig {
  config: CoreConfig;
  warnings: readonly string[];
}

type CoreValues = ValuesOf<typeof coreVariables>;

/** Adds the faults between variables that belong to no part of the config. */
const addFaultsBetween = (env: Environment, faults: ConfigFault[]) => {
  directoryConfigFaults(env, faults);
  storeFaults(env, faults);
  chatFaults(env, faults);
  tracesFaults(env, faults);
  requireWith(env, faults, "SVC_LICENSE", "SVC_LICENSE_PUBLIC_KEY_FILE");
  requireWith(
    env,
    faults,
    "SVC_INGEST_GRPC_ADDR",
    "SVC_INGEST_SERVER_CERT_FILE",
    "SVC_INGEST_SERVER_KEY_FILE",
    "SVC_INGEST_CLIENT_CA_FILE",
  );
};

const ingestConfigOf = (values: CoreValues) =>
  values.SVC_INGEST_GRPC_ADDR
    ? {
        ...values.SVC_INGEST_GRPC_ADDR,
        serverCertFile: values.SVC_INGEST_SERVER_CERT_FILE ?? "",
        serverKeyFile: values.SVC_INGEST_SERVER_KEY_FILE ?? "",
        clientCaFile: values.SVC_INGEST_CLIENT_CA_FILE ?? "",
        /** Null: core publishes no authorities of the listener. */
        caBundleFile: values.SVC_INGEST_CA_BUNDLE_FILE ?? null,
        frameBytesMax: values.SVC_INGEST_MAX_FRAME_BYTES,
        payloadBytesMax: values.SVC_INGEST_MAX_PAYLOAD_BYTES,
        discardSpanNames: values.SVC_INGEST_SAFE_RAW_DISCARD_OTEL_SPAN_NAMES ?? [],
        requireEnrollment: values.SVC_INGEST_REQUIRE_ENROLLMENT,
        retentionDays: values.SVC_INGEST_RETENTION_DAYS,
        /** TLS handshakes that a remote address may start in a second. */
        handshakesOfAddress: values.SVC_INGEST_HANDSHAKES_PER_ADDRESS,
        store: storeConfigOf(values),
      }
    : null;

/** The address of the ingest listener, its files and what it accepts (docs/protocol.md). */
export type IngestConfig = NonNullable<ReturnType<typeof ingestConfigOf>>;

/** Returns why a revoked host can still forward; null if it cannot, and without ingest or a signer. */
const revocationGapOf = (values: CoreValues, signer: SignerConfig | null) =>
  signer && values.SVC_INGEST_GRPC_ADDR && !values.SVC_INGEST_REQUIRE_ENROLLMENT
    ? "SVC_INGEST_REQUIRE_ENROLLMENT is false: a revoked host can forward until its certificate expires"
    : null;

/** Returns the parts of the config that need more than the value of each variable. */
const partsOf = (env: Environment, faults: ConfigFault[]) => ({
  signer: signerConfigOf(env, faults),
  /** Null: the log of statements is not signed. */
  completeness: completenessConfigOf(env, faults),
});

/** Where the values of a configuration come from. */
interface Origins {
  /** The files of variables, which are followed. */
  files: readonly VariableFile[];
  /** The variables that are set, with the paths of their files. */
  sources: ReadonlyMap<string, string | null>;
}

const coreConfigOf = (
  values: CoreValues,
  parts: ReturnType<typeof partsOf>,
  { ingestAddress, ...origins }: Origins & { ingestAddress: string | null },
) => ({
  ...origins,
  port: values.PORT,
  /** The address that the HTTP listener binds to; null for every interface. */
  httpHost: values.SVC_HTTP_HOST ?? null,
  databaseUrl: values.SVC_DATABASE_URL,
  /** A URL at which statements keep a session: `databaseUrl` may then lead to a pooler in transaction mode. Null: `databaseUrl` itself. */
  databaseSessionUrl: values.SVC_DATABASE_SESSION_URL ?? null,
  /** Prints the password of a new connection; null: the URLs have it. */
  databasePasswordCommand: values.SVC_DATABASE_PASSWORD_COMMAND ?? null,
  tenantId: values.SVC_TENANT_ID,
  authTokenSecret: values.SVC_AUTH_TOKEN_SECRET,
  /** Accepted beside `authTokenSecret`, but never used to sign: the previous secret, or the next one. */
  authTokenSecretPrevious: values.SVC_AUTH_TOKEN_SECRET_PREVIOUS ?? null,
  directory: directoryConfigOf(values),
  ops: {
    bearerToken: values.SVC_OPS_BEARER_TOKEN ?? null,
    trustLoopback: values.SVC_TRUST_LOOPBACK_OPS,
  },
  /** Null: core publishes no authorities by which hosts verify its routes. */
  managementCaBundleFile: values.SVC_MANAGEMENT_CA_BUNDLE_FILE ?? null,
  /** Null: the community edition. */
  license: values.SVC_LICENSE
    ? { token: values.SVC_LICENSE, publicKeyFile: values.SVC_LICENSE_PUBLIC_KEY_FILE ?? "" }
    : null,
  ingest: ingestConfigOf(values),
  storeKeys: storeKeysOf(values),
  /** How long the states of hosts' hours are kept. */
  accountRetentionDays: values.SVC_ACCOUNT_RETENTION_DAYS,
  /** Core considers a queue that it has not seen for so long lost: it binds no further hour. */
  queueLostAfterDays: values.SVC_QUEUE_LOST_AFTER_DAYS,
  /** How long the history of the fleet is kept. */
  stateRetentionDays: values.SVC_STATE_RETENTION_DAYS,
  revocationGap: revocationGapOf(values, parts.signer),
  hostIdBytesMax: values.SVC_INGEST_MAX_HOST_ID_BYTES,
  clientCertificateHeader: values.SVC_ENROLLMENT_CLIENT_CERT_HEADER ?? null,
  /** The addresses at which hosts reach core, for the command that enrolls them; null: an admin adds them. */
  advertised: {
    coreUrl: values.SVC_ADVERTISED_CORE_URL?.replace(/\/$/, "") ?? null,
    ingestAddress,
  },
  heartbeatIntervalSeconds: values.SVC_HEARTBEAT_INTERVAL,
  collectorVersionMin: values.SVC_COLLECTOR_MIN_VERSION ?? null,
  otelcolVersionMin: values.SVC_OTELCOL_MIN_VERSION ?? null,
  /** False: chat answers 503 `service_disabled`. */
  chatEnabled: values.SVC_CHAT_ENABLED,
  /** Null: chat is disabled, or has no model. */
  chat: chatConfigOf(values),
  /** Returns the issuers whose tokens workloads exchange; empty: none. */
  workloadIssuers: () => values.SVC_WORKLOAD_ISSUERS?.reveal().issuers ?? [],
  /** Returns where the messages of watches go; null: nowhere. */
  watches: () => values.SVC_WATCH_RECEIVERS?.reveal() ?? null,
  /** Null: nothing is recorded. */
  traces: tracesConfigOf(values),
  /** The worker runs on Cloudflare, which sets `CF-Connecting-IP` itself. */
  onCloudflare: values.SVC_ON_CLOUDFLARE,
  /** From SIGTERM until core closes its listeners; it is not ready meanwhile. */
  shutdownDelaySeconds: values.SVC_SHUTDOWN_DELAY,
  logLevel: values.SVC_LOG_LEVEL,
  ...parts,
});

/** Core's configuration: parsed once, complete, frozen. */
export type CoreConfig = ReturnType<typeof coreConfigOf>;

/** Parses core's environment (docs/configuration.md). Throws one `ConfigError` that names every faulty variable and quotes no value. */
export const parseCoreConfig = (
  env: Environment,
  readFile: (path: string) => string,
): ParsedCoreConfig => {
  const {
    env: resolved,
    faults,
    values,
    ...origins
  } = parseVariables(ignoreDisabledChat(env), {
    variables: coreVariables,
    readFile,
  });
  // The rules between variables apply even when one variable is faulty, so that one run reports every fault.
  const parts = partsOf(resolved, faults);
  addFaultsBetween(resolved, faults);
  if (values === undefined || faults.length > 0) throw new ConfigError(faults);

  const ingestAddress = resolved.SVC_ADVERTISED_INGEST_ADDR ?? null;
  const config = coreConfigOf(values, parts, { ingestAddress, ...origins });
  // `svc-server export` and `svc-admin` read the last ones.
  const known = [
    ...namesOf(coreVariables),
    ...variablesOfOthers,
    ...Object.keys(env).filter((name) => /^SVC_(EXPORT|ADMIN)_/.test(name)),
  ];
  const warnings = [
    ...warnOfUnknown(env, "SVC_", known),
    ...warnOfShadowed(env, coreVariables),
    ...storeWarnings(values),
    ...chatWarnings(values),
  ];
  if (config.revocationGap !== null) warnings.push(config.revocationGap);
  return { config: Object.freeze(config), warnings };
};

/** The variables that commands use. */
const ofCommands = /^(AWS|SVC_(AUTH_TOKEN|DATABASE|DIRECTORY|INGEST_STORE|TENANT))_/;

/** Parses the variables that a command on the database needs, so that a fault of others, such as of watches, cannot stop it. */
export const parseCommandConfig: typeof parseCoreConfig = (env, readFile) =>
  parseCoreConfig(
    Object.fromEntries(Object.entries(env).filter(([name]) => ofCommands.test(name))),
    readFile,
  );
