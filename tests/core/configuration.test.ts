import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { coreVariables, parseCoreConfig } from "#functions/config/core-config.ts";
import { exportVariables, parseExportConfig } from "#functions/config/export-config.ts";
import { ConfigError } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import { parseWebConfig, webVariables } from "#ui/bff/config.ts";

/** What a variable does: its value when unset, texts with their values, and texts that fail the start with their messages. */
interface Behavior {
  unset: unknown;
  accepts: Readonly<Record<string, unknown>>;
  rejects: Readonly<Record<string, string>>;
}

const required = "required";
const noText = { "": "is required" };
const boolean = (unset: boolean) => ({
  unset,
  accepts: { true: true, false: false },
  rejects: {
    yes: "must be true or false",
    TRUE: "must be true or false",
    "1": "must be true or false",
  },
});
const integer = (unset: number, min: number, max: number) => ({
  unset,
  accepts: { [min]: min, [max]: max },
  rejects: {
    ...(min > 0 ? { [min - 1]: `must be between ${min} and ${max}` } : {}),
    [max + 1]: `must be between ${min} and ${max}`,
    "-1": "must be a whole number",
    "1.5": "must be a whole number",
    "1k": "must be a whole number",
  },
});
const duration = (unset: number, min: number) => ({
  unset,
  accepts: { [`${min}s`]: min, "90m": 5400, "2h": 7200, "1d": 86_400 },
  rejects: {
    [`${min - 1}s`]: `must be at least ${min}s`,
    "60": "must be a whole number followed by s, m, h or d",
    "1.5h": "must be a whole number followed by s, m, h or d",
    "1w": "must be a whole number followed by s, m, h or d",
  },
});
/** One of these texts, named as `must be a, b or c`. */
const choice = (unset: unknown, names: readonly string[], wrong: string) => ({
  unset,
  accepts: Object.fromEntries(names.map((name) => [name, name])),
  rejects: { [wrong]: `must be ${names.slice(0, -1).join(", ")} or ${names.at(-1)}` },
});
/** A text that only must not be empty; an empty variable counts as unset. */
const text = (unset: unknown, example: string) => ({
  unset,
  accepts: { [example]: example },
  rejects: unset === required ? noText : {},
});
const hmacKey = {
  unset: required,
  accepts: { "32 bytes, which is just as needed": "32 bytes, which is just as needed" },
  rejects: { ...noText, "31 bytes, which is one too few.": "must be at least 32 bytes" },
};
const previousHmacKey = {
  ...hmacKey,
  unset: undefined,
  rejects: { "31 bytes, which is one too few.": "must be at least 32 bytes" },
};
const databaseUrl = (unset: unknown) => ({
  unset,
  accepts: { "postgres://me:pw@db:5432/core": "postgres://me:pw@db:5432/core" },
  rejects: { "mysql://db/core": "must", nonsense: "must" },
});
const uuid = {
  unset: required,
  accepts: { "01920000-0000-7000-8000-00000000000A": "01920000-0000-7000-8000-00000000000a" },
  rejects: { ...noText, tenant: "must be a UUID" },
};
const host = {
  unset: undefined,
  accepts: { "127.0.0.1": "127.0.0.1", "::1": "::1", localhost: "localhost" },
  rejects: {
    "a host": "must be an address or a host name",
    "h/1": "must be an address or a host name",
  },
};
const logLevel = choice("info", ["debug", "info", "warn", "error"], "DEBUG");
const secret = (unset: unknown) => ({
  unset,
  accepts: { hush: "hush" },
  rejects: unset === required ? noText : {},
});
const provider = choice(
  "mock",
  ["openai", "openai-compatible", "litellm", "anthropic", "mock"],
  "llama",
);
const confidentialUrl = {
  unset: undefined,
  accepts: {
    "https://api.example.com": "https://api.example.com",
    "http://127.0.0.1:9/v1": "http://127.0.0.1:9/v1",
  },
  rejects: {
    "http://api.example.com": "must be an https:// URL",
    nowhere: "must be an https:// URL",
  },
};

const shutdownDelay = {
  unset: 1,
  accepts: { "0s": 0, "300s": 300, "5m": 300 },
  rejects: {
    "301s": "must be at most 300s",
    "1h": "must be at most 300s",
    "5": "must be a whole number",
    "-1s": "must be",
  },
};
const traces = {
  SVC_TRACES_URL: {
    unset: undefined,
    accepts: { "http://127.0.0.1:4318/v1/traces": "http://127.0.0.1:4318/v1/traces" },
    rejects: { "127.0.0.1:4318": "must be an http or https URL" },
  },
  SVC_TRACES_HEADERS: {
    unset: undefined,
    accepts: { "api-key=a=b,tenant=c": { "api-key": "a=b", tenant: "c" } },
    rejects: { "api-key": "must be name=value", "a=b,": "must be name=value" },
  },
  SVC_TRACES_SAMPLE_PERCENT: {
    unset: 1,
    accepts: { "0": 0, "0.1": 0.1, "100": 100 },
    rejects: {
      "101": "must be a number from 0 to 100",
      "-1": "must be a number from 0 to 100",
      "1%": "must be a number from 0 to 100",
    },
  },
} satisfies Record<string, Behavior>;

const core: Readonly<Record<keyof typeof coreVariables, Behavior>> = {
  PORT: integer(8080, 0, 65535),
  SVC_HTTP_HOST: host,
  SVC_DATABASE_URL: databaseUrl(required),
  SVC_DATABASE_SESSION_URL: databaseUrl(undefined),
  SVC_SHUTDOWN_DELAY: shutdownDelay,
  SVC_TENANT_ID: uuid,
  SVC_AUTH_TOKEN_SECRET: hmacKey,
  SVC_AUTH_TOKEN_SECRET_PREVIOUS: previousHmacKey,
  SVC_DIRECTORY_DOMAIN: {
    unset: required,
    accepts: { "Example.COM": "example.com" },
    rejects: {
      ...noText,
      ...Object.fromEntries(
        ["@example.com", "example.com.", "com"].map((name) => [name, "must be a domain name"]),
      ),
    },
  },
  SVC_DIRECTORY_PROVIDER: choice("google", ["google", "file", "scim"], "ldap"),
  SVC_DIRECTORY_SCIM_TOKEN: {
    unset: undefined,
    accepts: {
      ["a".repeat(32)]: ["a".repeat(32)],
      [`${"a".repeat(64)}\n${"b".repeat(64)}`]: ["a".repeat(64), "b".repeat(64)],
    },
    rejects: {
      ["a".repeat(31)]: "must be 32 to 512 letters",
      [`${"a".repeat(31)}ä`]: "must be 32 to 512 letters",
      [["a", "b", "c"].map((letter) => letter.repeat(32)).join("\n")]: "must be one token, or two",
    },
  },
  SVC_DIRECTORY_SCIM_SUBJECT: choice("externalId", ["externalId", "userName", "id"], "email"),
  SVC_DIRECTORY_DELEGATE_EMAIL: {
    unset: undefined,
    accepts: { "root@example.com": "root@example.com" },
    rejects: { root: "must be an email address" },
  },
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: text(undefined, "/run/directory.json"),
  SVC_WORKLOAD_ISSUERS_FILE: {
    unset: undefined,
    accepts: {},
    rejects: { "/run/workloads.yaml": "must be a mapping" },
  },
  SVC_WORKLOAD_ISSUERS: {
    unset: undefined,
    accepts: { "issuers: []": "issuers: []" },
    rejects: { "issuers: {}": "must be a list of issuers" },
  },
  SVC_WATCH_RECEIVERS: {
    unset: undefined,
    accepts: {
      "{web_url: 'https://fleet.test/', receivers: []}": {
        webUrl: "https://fleet.test",
        receivers: [],
      },
    },
    rejects: { "receivers: []": "web_url is required" },
  },
  SVC_DIRECTORY_FILE: text(undefined, "/run/directory.yaml"),
  SVC_DIRECTORY_SYNC_INTERVAL: duration(3600, 1),
  SVC_DIRECTORY_API_URL: confidentialUrl,
  SVC_DIRECTORY_ALLOW_MASS_REMOVAL: boolean(false),
  SVC_OPS_BEARER_TOKEN: secret(undefined),
  SVC_TRUST_LOOPBACK_OPS: boolean(false),
  SVC_LICENSE: secret(undefined),
  SVC_LICENSE_PUBLIC_KEY_FILE: text(undefined, "/run/license.pem"),
  SVC_INGEST_GRPC_ADDR: {
    unset: undefined,
    accepts: {
      "0.0.0.0:8443": { host: "0.0.0.0", port: 8443 },
      "[::]:65535": { host: "::", port: 65_535 },
    },
    rejects: {
      "8443": "must be host:port",
      "0.0.0.0:65536": "a port of at most 65535",
      "::1:8443": "[IPv6 address]:port",
      "[:::]:1": "a valid address",
    },
  },
  SVC_INGEST_SERVER_CERT_FILE: text(undefined, "/run/server.pem"),
  SVC_INGEST_SERVER_KEY_FILE: text(undefined, "/run/server.key"),
  SVC_INGEST_CLIENT_CA_FILE: text(undefined, "/run/ca.pem"),
  SVC_INGEST_MAX_FRAME_BYTES: integer(4_194_304, 1024, 268_435_456),
  SVC_INGEST_MAX_PAYLOAD_BYTES: integer(4_194_304, 1, 268_435_456),
  SVC_INGEST_MAX_HOST_ID_BYTES: integer(253, 1, 2048),
  SVC_INGEST_SAFE_RAW_DISCARD_OTEL_SPAN_NAMES: {
    unset: undefined,
    accepts: { " GET /healthz , ping": ["GET /healthz", "ping"], one: ["one"] },
    rejects: Object.fromEntries(
      [",a", "a,", "a,,b", "a, ,b", ","].map((names) => [names, "must not have an empty entry"]),
    ),
  },
  SVC_INGEST_REQUIRE_ENROLLMENT: boolean(false),
  SVC_INGEST_RETENTION_DAYS: integer(30, 0, 3650),
  SVC_ACCOUNT_RETENTION_DAYS: integer(400, 2, 3650),
  SVC_QUEUE_LOST_AFTER_DAYS: integer(7, 1, 400),
  SVC_STATE_RETENTION_DAYS: integer(90, 1, 400),
  SVC_INGEST_HANDSHAKES_PER_ADDRESS: integer(50, 1, 10_000),
  SVC_INGEST_SINK: choice("postgres", ["postgres", "nats"], "kafka"),
  SVC_NATS_URLS: {
    unset: undefined,
    accepts: { "nats://a:4222, tls://b:4222": ["nats://a:4222", "tls://b:4222"] },
    rejects: {
      "a:4222": "must be nats://host:port",
      "nats://me:pw@a:4222": "must not hold credentials",
    },
  },
  SVC_NATS_CREDENTIALS_FILE: text(undefined, "/run/core.creds"),
  SVC_NATS_CA_FILE: text(undefined, "/run/nats-ca.pem"),
  SVC_NATS_STREAM: {
    unset: "SVC_INGEST",
    accepts: { "svc-1_A": "svc-1_A" },
    rejects: { "svc.ingest": "must be 1 to 64 letters" },
  },
  SVC_NATS_REPLICAS: integer(3, 1, 5),
  SVC_NATS_DURABILITY: choice(undefined, ["synced", "replicated"], "none"),
  SVC_NATS_MAX_AGE: {
    ...duration(604_800, 0),
    rejects: { "1w": "must be a whole number followed by s, m, h or d" },
  },
  SVC_ENROLLMENT_SIGNER_MODE: choice(undefined, ["local-ca", "external-command"], "remote"),
  SVC_ENROLLMENT_SIGNER_COMMAND: {
    unset: undefined,
    accepts: { "/usr/bin/sign": "/usr/bin/sign" },
    rejects: { sign: "must be an absolute path" },
  },
  SVC_ENROLLMENT_CA_CERT_FILE: text(undefined, "/run/ca.pem"),
  SVC_ENROLLMENT_CA_KEY_FILE: text(undefined, "/run/ca.key"),
  SVC_ENROLLMENT_CLIENT_CERT_HEADER: {
    unset: undefined,
    accepts: { "X-Client-Cert": "x-client-cert" },
    rejects: { "X Client": "must be a header name", "X-Cert:": "must be a header name" },
  },
  SVC_ADVERTISED_CORE_URL: confidentialUrl,
  SVC_ADVERTISED_INGEST_ADDR: {
    unset: undefined,
    accepts: { "core.example.com:8443": { host: "core.example.com", port: 8443 } },
    rejects: { "core.example.com": "must be host:port" },
  },
  SVC_HEARTBEAT_INTERVAL: duration(60, 1),
  SVC_COLLECTOR_MIN_VERSION: {
    unset: undefined,
    accepts: { "1.4.0": "1.4.0", "2.0.0-rc.1": "2.0.0-rc.1" },
    rejects: { "1.4": "must be a SemVer version", v1: "must be a SemVer version" },
  },
  SVC_CHAT_ENABLED: boolean(true),
  SVC_INFERENCE_CHAT_MODEL: {
    unset: undefined,
    accepts: { "a-model": "a-model" },
    rejects: { ["m".repeat(257)]: "must be at most 256 characters" },
  },
  SVC_INFERENCE_PROVIDER: provider,
  SVC_INFERENCE_API_KEY: secret(undefined),
  SVC_INFERENCE_BASE_URL: {
    ...confidentialUrl,
    rejects: {
      ...confidentialUrl.rejects,
      "https://api.example.com/?k=1": "must hold no query or fragment",
    },
  },
  SVC_CHAT_SQL_TOOL_ENABLED: boolean(true),
  SVC_CHAT_DATABASE_URL: databaseUrl(undefined),
  SVC_COMPLETENESS_KEY_FILE: text(undefined, "/run/completeness.pem"),
  SVC_COMPLETENESS_ORIGIN: {
    unset: undefined,
    accepts: { "core.example/completeness": "core.example/completeness" },
    rejects: { "two words": "must have no spaces and no +", "a+b": "must have no spaces and no +" },
  },
  SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: text(undefined, "/run/receipts.pem"),
  SVC_CHAT_RECEIPT_SIGNING_KEY_ID: {
    unset: undefined,
    accepts: { "receipts-2026": "receipts-2026" },
    rejects: { "two words": "must be 1 to 128 printable ASCII characters" },
  },
  SVC_ON_CLOUDFLARE: boolean(false),
  ...traces,
  SVC_LOG_LEVEL: logLevel,
};

const publicUrl = {
  ftp: "must be an http or https URL",
  "https://a.example/?x=1": "must hold no user, query or fragment",
};

const web: Readonly<Record<keyof typeof webVariables, Behavior>> = {
  PORT: integer(3000, 0, 65535),
  SVC_HTTP_HOST: host,
  WEBAUTH_URL: {
    unset: required,
    accepts: { "https://fleet.example.com": "https://fleet.example.com" },
    rejects: { ...noText, ...publicUrl },
  },
  WEBAUTH_SECRET: hmacKey,
  WEBAUTH_SECRET_PREVIOUS: previousHmacKey,
  SESSION_TTL: {
    unset: 1800,
    accepts: { "1s": 1, "7d": 604_800, "36500d": 3_153_600_000 },
    rejects: {
      "0s": "must be at least 1s",
      "36501d": "must be at most 36500d",
      "30": "must be a whole number followed by",
    },
  },
  IDP_ISSUER: {
    unset: "https://accounts.google.com",
    accepts: { "http://127.0.0.1:9000": "http://127.0.0.1:9000" },
    rejects: { ...publicUrl, "http://idp.example.com": "must be an https URL" },
  },
  IDP_NAME: {
    unset: undefined,
    accepts: { "Staff login": "Staff login" },
    rejects: { ["n".repeat(61)]: "must be at most 60 characters" },
  },
  IDP_CLIENT_ID: text(required, "web"),
  IDP_CLIENT_SECRET: secret(required),
  IDP_SUBJECT_CLAIM: choice("sub", ["sub", "oid"], "email"),
  SVC_TRUSTED_PROXIES: {
    unset: undefined,
    accepts: { "10.0.0.0/8, 2001:db8::1": ["10.0.0.0/8", "2001:db8::1/128"] },
    rejects: {
      "0.0.0.0/0": "must be CIDRs",
      "10.0.0.0/8,": "must be CIDRs",
      "edge.example": "must be CIDRs",
    },
  },
  SVC_API_URL: {
    unset: required,
    accepts: { "http://core:8080/v1/": "http://core:8080/v1" },
    rejects: { ...noText, "http://core:8080": "must end in /v1" },
  },
  SVC_AUTH_TOKEN_SECRET: hmacKey,
  SVC_DATABASE_URL: databaseUrl(required),
  SVC_TENANT_ID: uuid,
  SVC_SHUTDOWN_DELAY: shutdownDelay,
  ...traces,
  SVC_LOG_LEVEL: logLevel,
};

const exporting: Readonly<Record<keyof typeof exportVariables, Behavior>> = {
  SVC_EXPORT_ENDPOINT: {
    unset: required,
    accepts: {
      "https://otel.example.com:4318": "https://otel.example.com:4318/",
      "http://[::1]:4318/a": "http://[::1]:4318/a",
    },
    rejects: {
      ...noText,
      "otel:4317": "must be an http or https URL",
      "https://me:pw@otel": "without user",
    },
  },
  SVC_EXPORT_PROTOCOL: choice("http/protobuf", ["grpc", "http/protobuf"], "http/json"),
  SVC_EXPORT_HEADERS: {
    unset: undefined,
    accepts: {
      "Api-Key=a=b, tenant=c": { "api-key": "a=b", tenant: "c" },
      "authorization=Bearer a,note=b%2Cc%20d": { authorization: "Bearer a", note: "b,c d" },
    },
    rejects: {
      "api-key": "must be name=value",
      "a=b,": "must be name=value",
      "a=%": "must be name=value",
      "a=b%0Ac": "must be name=value",
    },
  },
  SVC_EXPORT_CA_FILE: text(undefined, "/etc/svc/ca.pem"),
  SVC_EXPORT_CLIENT_CERT_FILE: text(undefined, "/etc/svc/client.pem"),
  SVC_EXPORT_CLIENT_KEY_FILE: text(undefined, "/etc/svc/client.key"),
  SVC_EXPORT_COMPRESSION: choice("gzip", ["gzip", "none"], "zstd"),
  SVC_EXPORT_SIGNALS: {
    unset: ["traces", "logs", "metrics"],
    accepts: { "logs, traces": ["logs", "traces"] },
    rejects: {
      profiles: "must be traces, logs or metrics",
      "logs,": "must be traces, logs or metrics",
    },
  },
  SVC_EXPORT_NAME: {
    unset: "default",
    accepts: { "loki-2": "loki-2" },
    rejects: {
      "Loki 2": "must be 1 to 32 lower-case letters",
      ["n".repeat(33)]: "must be 1 to 32",
    },
  },
  SVC_EXPORT_START: choice("oldest", ["oldest", "now"], "newest"),
  SVC_EXPORT_TIMEOUT: {
    unset: 10,
    accepts: { "1s": 1, "5m": 300 },
    rejects: { "0s": "must be at least 1s", "301s": "must be at most 300s" },
  },
  SVC_EXPORT_CONCURRENCY: integer(8, 1, 64),
  SVC_EXPORT_REQUEST_BYTES: integer(1024 * 1024, 1024, 64 * 1024 * 1024),
  SVC_EXPORT_BUFFER_BYTES: integer(64 * 1024 * 1024, 1024 * 1024, 1024 * 1024 * 1024),
  SVC_EXPORT_MAX_DEAD_LETTERS: integer(10_000, 0, 10_000_000),
  SVC_EXPORT_MAX_HOST_DEAD_LETTERS: integer(1_000, 0, 10_000_000),
  SVC_EXPORT_ATTEST_HOST: boolean(true),
  SVC_EXPORT_METRICS_ADDR: {
    unset: undefined,
    accepts: { "0.0.0.0:9464": { host: "0.0.0.0", port: 9464 } },
    rejects: { "9464": "must be host:port", "h:65536": "a port of at most 65535" },
  },
};

const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof URL) return value.href;
  if (typeof value === "object" && value !== null && !(value instanceof Secret))
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plain(part)]));
  return value instanceof Secret ? value.reveal() : value;
};

describe.each([
  { program: "core", variables: coreVariables, behaviors: core, parse: parseCoreConfig },
  {
    program: "svc-server export",
    variables: exportVariables,
    behaviors: exporting,
    parse: parseExportConfig,
  },
  { program: "web", variables: webVariables, behaviors: web, parse: parseWebConfig },
])("the variables of $program", ({ variables, behaviors, parse }) => {
  const messageOf = (name: string, value: string): string | undefined => {
    try {
      parse({ [name]: value }, () => "");
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return error.faults.find(({ variable }) => variable === name)?.message;
    }
  };

  it.each(Object.entries<Behavior>(behaviors))(
    "%s has its default, accepts its bounds and rejects what lies beyond",
    (name, behavior) => {
      const schema = (variables as Readonly<Record<string, v.GenericSchema>>)[
        name
      ] as v.GenericSchema;
      const unset = v.safeParse(schema, undefined);
      expect(unset.success ? plain(unset.output) : required).toEqual(behavior.unset);
      for (const [value, parsed] of Object.entries(behavior.accepts)) {
        expect([value, plain(v.parse(schema, value))]).toEqual([value, parsed]);
        expect([value, messageOf(name, value) ?? "no fault"]).toEqual([
          value,
          expect.not.stringContaining("must"),
        ]);
      }
      for (const [value, message] of Object.entries(behavior.rejects))
        expect([value, messageOf(name, value)]).toEqual([value, expect.stringContaining(message)]);
    },
  );
});

describe("the variables that a deployment needs", () => {
  const core = {
    SVC_DATABASE_URL: "postgres://svc:hush@database:5432/svc",
    SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
    SVC_AUTH_TOKEN_SECRET: "a-bridge-secret-of-more-than-32-bytes",
    SVC_DIRECTORY_DOMAIN: "example.com",
    SVC_DIRECTORY_DELEGATE_EMAIL: "admin@example.com",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/run/secrets/directory.json",
  };
  const web = {
    WEBAUTH_URL: "https://fleet.example.com/api/auth/callback/idp",
    WEBAUTH_SECRET: "a-session-secret-of-more-than-32-bytes",
    IDP_CLIENT_ID: "fleet-web",
    IDP_CLIENT_SECRET: "hush",
    SVC_AUTH_TOKEN_SECRET: core.SVC_AUTH_TOKEN_SECRET,
    SVC_API_URL: "http://core:8080/v1",
    SVC_DATABASE_URL: core.SVC_DATABASE_URL,
    SVC_TENANT_ID: core.SVC_TENANT_ID,
  };
  const ingest = {
    SVC_INGEST_GRPC_ADDR: "0.0.0.0:8443",
    SVC_INGEST_SERVER_CERT_FILE: "/ingest.crt",
    SVC_INGEST_SERVER_KEY_FILE: "/ingest.key",
    SVC_INGEST_CLIENT_CA_FILE: "/ca.crt",
  };
  const localCa = { SVC_ENROLLMENT_CA_CERT_FILE: "/ca.crt", SVC_ENROLLMENT_CA_KEY_FILE: "/ca.key" };
  const command = {
    SVC_ENROLLMENT_CA_CERT_FILE: "/ca.crt",
    SVC_ENROLLMENT_SIGNER_COMMAND: "/usr/bin/sign",
  };
  const providers = [
    { SVC_INFERENCE_PROVIDER: "openai", SVC_INFERENCE_API_KEY: "k" },
    { SVC_INFERENCE_PROVIDER: "anthropic", SVC_INFERENCE_API_KEY: "k" },
    {
      SVC_INFERENCE_PROVIDER: "litellm",
      SVC_INFERENCE_API_KEY: "k",
      SVC_INFERENCE_BASE_URL: "https://llm.example",
    },
    { SVC_INFERENCE_PROVIDER: "mock" },
    {},
  ].map((provider) => ({ SVC_INFERENCE_CHAT_MODEL: "m", ...provider }));
  const faultsOf = (parse: () => unknown) => {
    try {
      parse();
      return [];
    } catch (error) {
      return error instanceof ConfigError ? error.faults : [error];
    }
  };

  it("of core are six, and every documented choice is accepted with them", () => {
    for (const env of [
      {},
      ingest,
      localCa,
      command,
      { ...localCa, SVC_ENROLLMENT_SIGNER_MODE: "local-ca" },
      { ...command, SVC_ENROLLMENT_SIGNER_MODE: "external-command" },
      ...providers,
      {
        SVC_COMPLETENESS_KEY_FILE: "/log.pem",
        SVC_COMPLETENESS_ORIGIN: "core.example/completeness",
      },
      { SVC_COMPLETENESS_KEY_FILE: "/log.pem", SVC_ADVERTISED_CORE_URL: "https://core.example" },
      {
        SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: "/receipts.pem",
        SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-2026",
      },
    ])
      expect([env, faultsOf(() => parseCoreConfig({ ...core, ...env }, () => ""))]).toEqual([
        env,
        [],
      ]);
    for (const name of Object.keys(core))
      expect(faultsOf(() => parseCoreConfig({ ...core, [name]: "" }, () => ""))).toMatchObject([
        { variable: name },
      ]);
  });

  it("of web are eight, and every documented choice is accepted with them", () => {
    for (const env of [{}, ...providers])
      expect([env, faultsOf(() => parseWebConfig({ ...web, ...env }, () => ""))]).toEqual([
        env,
        [],
      ]);
    for (const name of Object.keys(web))
      expect(faultsOf(() => parseWebConfig({ ...web, [name]: "" }, () => ""))).toMatchObject([
        { variable: name },
      ]);
  });
});

it("an export's variables that contradict each other are all named at once", () => {
  const env = {
    SVC_DATABASE_URL: "postgres://core@127.0.0.1/core",
    SVC_EXPORT_ENDPOINT: "https://otel.example.com/otlp",
    SVC_EXPORT_PROTOCOL: "grpc",
    SVC_EXPORT_REQUEST_BYTES: "2097152",
    SVC_EXPORT_BUFFER_BYTES: "1048576",
  };
  expect(() => parseExportConfig(env, () => "")).toThrow(
    expect.objectContaining({
      faults: [
        {
          variable: "SVC_EXPORT_ENDPOINT",
          message: "must have no path with the protocol grpc",
        },
        {
          variable: "SVC_EXPORT_REQUEST_BYTES",
          message: "must be at most SVC_EXPORT_BUFFER_BYTES",
        },
      ],
    }),
  );
});
