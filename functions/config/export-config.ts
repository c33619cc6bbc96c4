import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import {
  ConfigError,
  type ConfigFault,
  type Environment,
  namesOf,
  parseVariables,
  requireWith,
  type ValuesOf,
  type VariableFile,
  warnOfShadowed,
  warnOfUnknown,
} from "#kit/env.ts";
import {
  BooleanVariable,
  DurationVariable,
  HeadersVariable,
  IntegerVariable,
  TextVariable,
} from "#kit/variables.ts";
import { coreVariables, variablesOfOthers } from "./core-config.ts";
import { storeKeysOf, storeKeyVariables } from "./store-config.ts";

/** The signals of OTLP, as its paths name them. */
const exportSignals = ["traces", "logs", "metrics"] as const;
/** One of `exportSignals`. */
export type ExportSignal = (typeof exportSignals)[number];

const endpoint = v.pipe(
  TextVariable,
  v.check(
    (text) => /^https?:\/\/[^?#]+$/.test(text) && URL.parse(text)?.username === "",
    "must be an http or https URL without user, query and fragment, for example https://otel.example.com:4318",
  ),
  v.transform((text) => new URL(text)),
);
const areSignals = (names: readonly string[]): boolean =>
  names.every((name) => (exportSignals as readonly string[]).includes(name));
const signals = v.pipe(
  TextVariable,
  v.transform((text) => text.split(",").map((name) => name.trim())),
  v.check(
    (names) => areSignals(names),
    "must be traces, logs or metrics, several separated by commas",
  ),
  v.transform((names) => names as ExportSignal[]),
);

/** One schema per variable of the export alone. */
export const exportVariables = {
  /**
   * `http` or `https` URL of the backend, as `https://otel.example.com:4318`; `/v1/traces` and
   * its like are appended
   */
  SVC_EXPORT_ENDPOINT: endpoint,
  /** `http/protobuf` or `grpc` */
  SVC_EXPORT_PROTOCOL: v.optional(
    v.picklist(["grpc", "http/protobuf"], "must be grpc or http/protobuf"),
    "http/protobuf",
  ),
  /**
   * headers of each request, `name=value,name=value`, `%2C` for a comma; needs an https URL, or
   * loopback
   */
  SVC_EXPORT_HEADERS: v.optional(HeadersVariable),
  /** CA bundle that verifies the backend; unset: the public authorities */
  SVC_EXPORT_CA_FILE: v.optional(TextVariable),
  /** client certificate, in PEM */
  SVC_EXPORT_CLIENT_CERT_FILE: v.optional(TextVariable),
  /** its key, not readable by group or world */
  SVC_EXPORT_CLIENT_KEY_FILE: v.optional(TextVariable),
  /** `gzip` or `none` */
  SVC_EXPORT_COMPRESSION: v.optional(v.picklist(["gzip", "none"], "must be gzip or none"), "gzip"),
  /** what is exported; lines of files are logs */
  SVC_EXPORT_SIGNALS: v.optional(signals, "traces,logs,metrics"),
  /** name of the position: another one for each backend */
  SVC_EXPORT_NAME: v.optional(
    v.pipe(
      TextVariable,
      v.regex(/^[a-z0-9-]{1,32}$/, "must be 1 to 32 lower-case letters, digits and hyphens"),
    ),
    "default",
  ),
  /** where a new position begins: `oldest`, with all that is stored, or `now` */
  SVC_EXPORT_START: v.optional(v.picklist(["oldest", "now"], "must be oldest or now"), "oldest"),
  /** of a request; at most 300s */
  SVC_EXPORT_TIMEOUT: v.optional(DurationVariable(1, 300), "10s"),
  /** requests in flight; at most 64 */
  SVC_EXPORT_CONCURRENCY: v.optional(IntegerVariable(1, 64), "8"),
  /** largest request, uncompressed; a larger envelope goes alone */
  SVC_EXPORT_REQUEST_BYTES: v.optional(IntegerVariable(1024, 64 * 1024 * 1024), "1048576"),
  /** payloads in memory: beyond it nothing more is read */
  SVC_EXPORT_BUFFER_BYTES: v.optional(IntegerVariable(1024 * 1024, 1024 * 1024 * 1024), "67108864"),
  /** dead letters of all hosts; beyond them rejected envelopes are lost, and counted */
  SVC_EXPORT_MAX_DEAD_LETTERS: v.optional(IntegerVariable(0, 10_000_000), "10000"),
  /** dead letters of one host; beyond them it loses its own */
  SVC_EXPORT_MAX_HOST_DEAD_LETTERS: v.optional(IntegerVariable(0, 10_000_000), "1000"),
  /** every resource gets `svc.host.identity`, from the certificate */
  SVC_EXPORT_ATTEST_HOST: v.optional(BooleanVariable, "true"),
  /** `host:port` that serves `/metrics` and `/healthz`; unset: nowhere */
  SVC_EXPORT_METRICS_ADDR: coreVariables.SVC_INGEST_GRPC_ADDR,
};

const variables = {
  SVC_DATABASE_URL: coreVariables.SVC_DATABASE_URL,
  SVC_DATABASE_SESSION_URL: coreVariables.SVC_DATABASE_SESSION_URL,
  SVC_DATABASE_PASSWORD_COMMAND: coreVariables.SVC_DATABASE_PASSWORD_COMMAND,
  SVC_LOG_LEVEL: coreVariables.SVC_LOG_LEVEL,
  ...storeKeyVariables,
  ...exportVariables,
};

type ExportValues = ValuesOf<typeof variables>;

const addFaultsBetween = (env: Environment, faults: ConfigFault[]): void => {
  const { SVC_EXPORT_ENDPOINT: url = "" } = env;
  const fault = (message: string) => faults.push({ variable: "SVC_EXPORT_ENDPOINT", message });
  requireWith(env, faults, "SVC_EXPORT_CLIENT_CERT_FILE", "SVC_EXPORT_CLIENT_KEY_FILE");
  requireWith(env, faults, "SVC_EXPORT_CLIENT_KEY_FILE", "SVC_EXPORT_CLIENT_CERT_FILE");
  if (!url) return;
  if (!url.startsWith("https:"))
    for (const variable of ["SVC_EXPORT_CA_FILE", "SVC_EXPORT_CLIENT_CERT_FILE"])
      if (env[variable]) fault(`must be https while ${variable} is set`);
  if (env.SVC_EXPORT_HEADERS && !isConfidentialUrl(url))
    fault("must be https while SVC_EXPORT_HEADERS is set");
};

/** Returns the faults between values that are valid individually. */
const faultsBetweenValues = (values: ExportValues): ConfigFault[] => {
  const faults: ConfigFault[] = [];
  if (values.SVC_EXPORT_PROTOCOL === "grpc" && values.SVC_EXPORT_ENDPOINT.pathname !== "/")
    faults.push({
      variable: "SVC_EXPORT_ENDPOINT",
      message: "must have no path with the protocol grpc",
    });
  if (values.SVC_EXPORT_REQUEST_BYTES > values.SVC_EXPORT_BUFFER_BYTES)
    faults.push({
      variable: "SVC_EXPORT_REQUEST_BYTES",
      message: "must be at most SVC_EXPORT_BUFFER_BYTES",
    });
  return faults;
};

const exportConfigOf = (values: ExportValues, files: readonly VariableFile[]) => {
  const { SVC_EXPORT_CLIENT_CERT_FILE: certFile, SVC_EXPORT_CLIENT_KEY_FILE: keyFile } = values;
  return {
    /** The files of variables, which are followed. */
    files,
    databaseUrl: values.SVC_DATABASE_URL,
    databaseSessionUrl: values.SVC_DATABASE_SESSION_URL ?? null,
    databasePasswordCommand: values.SVC_DATABASE_PASSWORD_COMMAND ?? null,
    storeKeys: storeKeysOf(values),
    /** The name of the position: one for each backend. */
    name: values.SVC_EXPORT_NAME,
    start: values.SVC_EXPORT_START,
    endpoint: values.SVC_EXPORT_ENDPOINT,
    protocol: values.SVC_EXPORT_PROTOCOL,
    /** Returns the headers of a request. */
    headers: () => values.SVC_EXPORT_HEADERS?.reveal() ?? {},
    caFile: values.SVC_EXPORT_CA_FILE ?? null,
    clientCertificate: certFile && keyFile ? { certFile, keyFile } : null,
    isCompressed: values.SVC_EXPORT_COMPRESSION === "gzip",
    signals: values.SVC_EXPORT_SIGNALS,
    timeoutMs: values.SVC_EXPORT_TIMEOUT * 1000,
    /** Requests in flight. */
    concurrency: values.SVC_EXPORT_CONCURRENCY,
    requestBytesMax: values.SVC_EXPORT_REQUEST_BYTES,
    /** Payloads in memory. */
    bufferBytesMax: values.SVC_EXPORT_BUFFER_BYTES,
    deadLettersMax: values.SVC_EXPORT_MAX_DEAD_LETTERS,
    /** The most dead letters that one host may have. */
    hostDeadLettersMax: values.SVC_EXPORT_MAX_HOST_DEAD_LETTERS,
    /** Whether each resource gets the identity of its host's certificate. */
    isAttested: values.SVC_EXPORT_ATTEST_HOST,
    /** Where metrics are served; null: nowhere. */
    metrics: values.SVC_EXPORT_METRICS_ADDR ?? null,
    logLevel: values.SVC_LOG_LEVEL,
  };
};

/** The configuration of `svc-server export`: parsed once, complete, frozen. */
export type ExportConfig = ReturnType<typeof exportConfigOf>;

/** Parses the environment of `svc-server export`. Throws one `ConfigError` that names every faulty variable and quotes no value. */
export const parseExportConfig = (
  env: Environment,
  readFile: (path: string) => string,
): { config: ExportConfig; warnings: readonly string[] } => {
  const { env: resolved, faults, values, files } = parseVariables(env, { variables, readFile });
  addFaultsBetween(resolved, faults);
  if (values !== undefined) faults.push(...faultsBetweenValues(values));
  if (values === undefined || faults.length > 0) throw new ConfigError(faults);
  const config = exportConfigOf(values, files);
  const known = [...namesOf({ ...coreVariables, ...variables }), ...variablesOfOthers];
  const warnings = [...warnOfUnknown(env, "SVC_", known), ...warnOfShadowed(env, variables)];
  return { config: Object.freeze(config), warnings };
};
