import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { coreVariables, parseCoreConfig } from "#functions/config/core-config.ts";
import { exportVariables, parseExportConfig } from "#functions/config/export-config.ts";
import { ConfigError } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import { parseWebConfig, webVariables } from "#ui/bff/config.ts";

/** What a variable does: its value when unset, texts with their values, and messages with the texts that fail the start by them. */
interface Behavior {
  unset: unknown;
  accepts: Readonly<Record<string, unknown>>;
  rejects: Readonly<Record<string, readonly string[]>>;
}

const required = "required";
/** A variable without a default is required, and an empty variable counts as unset. */
const behavior = (
  unset: unknown,
  accepts: Behavior["accepts"],
  rejects: Behavior["rejects"] = {},
): Behavior => ({
  unset,
  accepts,
  rejects: unset === required ? { "is required": [""], ...rejects } : rejects,
});
const optional = (accepts: Behavior["accepts"], rejects: Behavior["rejects"]) =>
  behavior(undefined, accepts, rejects);
/** Texts that are values as they stand. */
const same = (...texts: readonly string[]) => Object.fromEntries(texts.map((text) => [text, text]));

const boolean = (unset: boolean) =>
  behavior(unset, { true: true, false: false }, { "must be true or false": ["yes", "TRUE", "1"] });
const integer = (unset: number, min: number, max: number) =>
  behavior(
    unset,
    { [min]: min, [max]: max },
    {
      [`must be between ${min} and ${max}`]: [min - 1, max + 1].filter((n) => n >= 0).map(String),
      "must be a whole number": ["-1", "1.5", "1k"],
    },
  );
const notDuration = "must be a whole number followed by s, m, h or d";
const duration = (unset: number, min: number) =>
  behavior(
    unset,
    { [`${min}s`]: min, "90m": 5400, "2h": 7200, "1d": 86_400 },
    { [`must be at least ${min}s`]: [`${min - 1}s`], [notDuration]: ["60", "1.5h", "1w"] },
  );
/** One of these texts, named as `must be a, b or c`. */
const choice = (unset: unknown, names: readonly string[], wrong: string) =>
  behavior(unset, same(...names), {
    [`must be ${names.slice(0, -1).join(", ")} or ${names.at(-1)}`]: [wrong],
  });
/** A text that only must not be empty. */
const text = (unset: unknown, example: string) => behavior(unset, same(example));
const secret = (unset: unknown) => text(unset, "hush");
const semver = optional(same("1.4.0", "2.0.0-rc.1"), {
  "must be a SemVer version": ["1.4", "v1"],
});
const path = text(undefined, "/run/a-file");
const passwordCommand = optional(same("/usr/local/bin/password"), {
  "must be an absolute path": ["password"],
});
const hmacKey = (unset: unknown) =>
  behavior(unset, same("32 bytes, which is just as needed"), {
    "must be at least 32 bytes": ["31 bytes, which is one too few."],
  });
const databaseUrl = (unset: unknown) =>
  behavior(unset, same("postgres://me:pw@db:5432/core"), {
    must: ["mysql://db/core", "nonsense"],
  });
const uuid = behavior(
  required,
  { "01920000-0000-7000-8000-00000000000A": "01920000-0000-7000-8000-00000000000a" },
  { "must be a UUID": ["tenant"] },
);
const host = optional(same("127.0.0.1", "::1", "localhost"), {
  "must be an address or a host name": ["a host", "h/1"],
});
const logLevel = choice("info", ["debug", "info", "warn", "error"], "DEBUG");
const providers = ["openai", "openai-compatible", "litellm", "anthropic", "mock"];
const confidential = same("https://api.example.com", "http://127.0.0.1:9/v1");
const notConfidential = { "must be an https:// URL": ["http://api.example.com", "nowhere"] };
const confidentialUrl = optional(confidential, notConfidential);
const shutdownDelay = behavior(
  1,
  { "0s": 0, "300s": 300, "5m": 300 },
  { "must be at most 300s": ["301s", "1h"], "must be a whole number": ["5"], "must be": ["-1s"] },
);
const traces = {
  SVC_TRACES_URL: optional(same("http://127.0.0.1:4318/v1/traces"), {
    "must be an http or https URL": ["127.0.0.1:4318"],
  }),
  SVC_TRACES_HEADERS: optional(
    { "api-key=a=b,tenant=c": { "api-key": "a=b", tenant: "c" } },
    { "must be name=value": ["api-key", "a=b,"] },
  ),
  SVC_TRACES_SAMPLE_PERCENT: behavior(
    1,
    { "0": 0, "0.1": 0.1, "100": 100 },
    { "must be a number from 0 to 100": ["101", "-1", "1%"] },
  ),
} satisfies Record<string, Behavior>;

const core: Readonly<Record<keyof typeof coreVariables, Behavior>> = {
  PORT: integer(8080, 0, 65535),
  SVC_HTTP_HOST: host,
  SVC_DATABASE_URL: databaseUrl(required),
  SVC_DATABASE_SESSION_URL: databaseUrl(undefined),
  SVC_DATABASE_PASSWORD_COMMAND: passwordCommand,
  SVC_SHUTDOWN_DELAY: shutdownDelay,
  SVC_TENANT_ID: uuid,
  SVC_AUTH_TOKEN_SECRET: hmacKey(required),
  SVC_AUTH_TOKEN_SECRET_PREVIOUS: hmacKey(undefined),
  SVC_DIRECTORY_DOMAIN: behavior(
    required,
    { "Example.COM": "example.com" },
    { "must be a domain name": ["@example.com", "example.com.", "com"] },
  ),
  SVC_DIRECTORY_PROVIDER: choice("google", ["google", "file", "scim"], "ldap"),
  SVC_DIRECTORY_SCIM_TOKEN: optional(
    {
      ["a".repeat(32)]: ["a".repeat(32)],
      [`${"a".repeat(64)}\n${"b".repeat(64)}`]: ["a".repeat(64), "b".repeat(64)],
    },
    {
      "must be 32 to 512 letters": ["a".repeat(31), `${"a".repeat(31)}ä`],
      "must be one token, or two": [["a", "b", "c"].map((letter) => letter.repeat(32)).join("\n")],
    },
  ),
  SVC_DIRECTORY_SCIM_SUBJECT: choice("externalId", ["externalId", "userName", "id"], "email"),
  SVC_DIRECTORY_DELEGATE_EMAIL: optional(same("root@example.com"), {
    "must be an email address": ["root"],
  }),
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: path,
  SVC_WORKLOAD_ISSUERS: optional(
    { "issuers: []": { issuers: [] } },
    {
      "must be a list of issuers": ["issuers: {}"],
      "must be a mapping": ["/run/workloads.yaml"],
    },
  ),
  SVC_WATCH_RECEIVERS: optional(
    {
      "{web_url: 'https://fleet.test/', receivers: []}": {
        webUrl: "https://fleet.test",
        receivers: [],
      },
    },
    { "web_url is required": ["receivers: []"] },
  ),
  SVC_DIRECTORY_FILE: path,
  SVC_DIRECTORY_SYNC_INTERVAL: duration(3600, 1),
  SVC_DIRECTORY_API_URL: confidentialUrl,
  SVC_DIRECTORY_ALLOW_MASS_REMOVAL: boolean(false),
  SVC_OPS_BEARER_TOKEN: secret(undefined),
  SVC_TRUST_LOOPBACK_OPS: boolean(false),
  SVC_LICENSE: secret(undefined),
  SVC_LICENSE_PUBLIC_KEY_FILE: path,
  SVC_INGEST_GRPC_ADDR: optional(
    { "0.0.0.0:8443": { host: "0.0.0.0", port: 8443 }, "[::]:65535": { host: "::", port: 65_535 } },
    {
      "must be host:port": ["8443"],
      "a port of at most 65535": ["0.0.0.0:65536"],
      "[IPv6 address]:port": ["::1:8443"],
      "a valid address": ["[:::]:1"],
    },
  ),
  SVC_INGEST_SERVER_CERT_FILE: path,
  SVC_INGEST_SERVER_KEY_FILE: path,
  SVC_INGEST_CLIENT_CA_FILE: path,
  SVC_INGEST_CA_BUNDLE_FILE: path,
  SVC_INGEST_MAX_FRAME_BYTES: integer(4_194_304, 1024, 268_435_456),
  SVC_INGEST_MAX_PAYLOAD_BYTES: integer(4_194_304, 1, 268_435_456),
  SVC_INGEST_MAX_HOST_ID_BYTES: integer(253, 1, 2048),
  SVC_INGEST_SAFE_RAW_DISCARD_OTEL_SPAN_NAMES: optional(
    { " GET /healthz , ping": ["GET /healthz", "ping"], one: ["one"] },
    { "must not have an empty entry": [",a", "a,", "a,,b", "a, ,b", ","] },
  ),
  SVC_INGEST_REQUIRE_ENROLLMENT: boolean(false),
  SVC_INGEST_RETENTION_DAYS: integer(30, 0, 3650),
  SVC_ACCOUNT_RETENTION_DAYS: integer(400, 2, 3650),
  SVC_QUEUE_LOST_AFTER_DAYS: integer(7, 1, 400),
  SVC_STATE_RETENTION_DAYS: integer(90, 1, 400),
  SVC_INGEST_HANDSHAKES_PER_ADDRESS: integer(50, 1, 10_000),
  SVC_INGEST_STORE: behavior("postgres", same("directory:/data", "s3://bucket/prefix"), {
    "must be postgres, directory:/path, or s3:": ["directory:data", "s3", "s3://bucket?endpoint=x"],
  }),
  SVC_INGEST_STORE_CREDENTIALS: optional(
    {
      "aws_access_key_id=a aws_secret_access_key=b": { accessKeyId: "a", secretAccessKey: "b" },
      "[default]\naws_access_key_id = a\naws_secret_access_key = b\naws_session_token = c": {
        accessKeyId: "a",
        secretAccessKey: "b",
        sessionToken: "c",
      },
    },
    { "must be aws_access_key_id=": ["a:b", "aws_access_key_id=a"] },
  ),
  AWS_ROLE_ARN: text(undefined, "arn:aws:iam::1:role/core"),
  AWS_WEB_IDENTITY_TOKEN_FILE: path,
  AWS_ENDPOINT_URL_STS: optional(same("https://sts.example.com"), {
    "must be an https:// URL": ["http://sts.example.com"],
  }),
  SVC_ENROLLMENT_SIGNER_MODE: choice(undefined, ["local-ca", "external-command"], "remote"),
  SVC_ENROLLMENT_SIGNER_COMMAND: optional(same("/usr/bin/sign"), {
    "must be an absolute path": ["sign"],
  }),
  SVC_ENROLLMENT_CA_CERT_FILE: path,
  SVC_ENROLLMENT_CA_KEY_FILE: path,
  SVC_ENROLLMENT_CLIENT_CERT_HEADER: optional(
    { "X-Client-Cert": "x-client-cert" },
    { "must be a header name": ["X Client", "X-Cert:"] },
  ),
  SVC_ADVERTISED_CORE_URL: confidentialUrl,
  SVC_ADVERTISED_INGEST_ADDR: optional(
    { "core.example.com:8443": { host: "core.example.com", port: 8443 } },
    { "must be host:port": ["core.example.com"] },
  ),
  SVC_MANAGEMENT_CA_BUNDLE_FILE: path,
  SVC_HEARTBEAT_INTERVAL: duration(60, 1),
  SVC_COLLECTOR_MIN_VERSION: semver,
  SVC_OTELCOL_MIN_VERSION: semver,
  SVC_CHAT_ENABLED: boolean(true),
  SVC_INFERENCE_CHAT_MODEL: optional(same("a-model"), {
    "must be at most 256 characters": ["m".repeat(257)],
  }),
  SVC_INFERENCE_PROVIDER: choice("mock", providers, "llama"),
  SVC_INFERENCE_API_KEY: secret(undefined),
  SVC_INFERENCE_BASE_URL: optional(confidential, {
    ...notConfidential,
    "must hold no query or fragment": ["https://api.example.com/?k=1"],
  }),
  SVC_CHAT_SQL_TOOL_ENABLED: boolean(true),
  SVC_CHAT_DATABASE_URL: databaseUrl(undefined),
  SVC_COMPLETENESS_KEY_FILE: path,
  SVC_COMPLETENESS_ORIGIN: optional(same("core.example/completeness"), {
    "must have no spaces and no +": ["two words", "a+b"],
  }),
  SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: path,
  SVC_CHAT_RECEIPT_SIGNING_KEY_ID: optional(same("receipts-2026"), {
    "must be 1 to 128 printable ASCII characters": ["two words"],
  }),
  SVC_ON_CLOUDFLARE: boolean(false),
  ...traces,
  SVC_LOG_LEVEL: logLevel,
};

const notPublic = {
  "must be an http or https URL": ["ftp"],
  "must hold no user, query or fragment": ["https://a.example/?x=1"],
};

const web: Readonly<Record<keyof typeof webVariables, Behavior>> = {
  PORT: integer(3000, 0, 65535),
  SVC_HTTP_HOST: host,
  WEBAUTH_URL: behavior(required, same("https://fleet.example.com"), notPublic),
  WEBAUTH_SECRET: hmacKey(required),
  WEBAUTH_SECRET_PREVIOUS: hmacKey(undefined),
  SESSION_TTL: behavior(
    1800,
    { "1s": 1, "7d": 604_800, "36500d": 3_153_600_000 },
    {
      "must be at least 1s": ["0s"],
      "must be at most 36500d": ["36501d"],
      "must be a whole number followed by": ["30"],
    },
  ),
  IDP_ISSUER: behavior("https://accounts.google.com", same("http://127.0.0.1:9000"), {
    ...notPublic,
    "must be an https URL": ["http://idp.example.com"],
  }),
  IDP_NAME: optional(same("Staff login"), { "must be at most 60 characters": ["n".repeat(61)] }),
  IDP_CLIENT_ID: text(required, "web"),
  IDP_CLIENT_SECRET: secret(required),
  IDP_SUBJECT_CLAIM: choice("sub", ["sub", "oid"], "email"),
  SVC_TRUSTED_PROXIES: optional(
    { "10.0.0.0/8, 2001:db8::1": ["10.0.0.0/8", "2001:db8::1/128"] },
    { "must be CIDRs": ["0.0.0.0/0", "10.0.0.0/8,", "edge.example"] },
  ),
  SVC_API_URL: behavior(
    required,
    { "http://core:8080/v1/": "http://core:8080/v1" },
    { "must end in /v1": ["http://core:8080"] },
  ),
  SVC_AUTH_TOKEN_SECRET: hmacKey(required),
  SVC_DATABASE_URL: databaseUrl(required),
  SVC_DATABASE_PASSWORD_COMMAND: passwordCommand,
  SVC_TENANT_ID: uuid,
  SVC_SHUTDOWN_DELAY: shutdownDelay,
  ...traces,
  SVC_LOG_LEVEL: logLevel,
};

const exporting: Readonly<Record<keyof typeof exportVariables, Behavior>> = {
  SVC_EXPORT_ENDPOINT: behavior(
    required,
    {
      "https://otel.example.com:4318": "https://otel.example.com:4318/",
      "http://[::1]:4318/a": "http://[::1]:4318/a",
    },
    { "must be an http or https URL": ["otel:4317"], "without user": ["https://me:pw@otel"] },
  ),
  SVC_EXPORT_PROTOCOL: choice("http/protobuf", ["grpc", "http/protobuf"], "http/json"),
  SVC_EXPORT_HEADERS: optional(
    {
      "Api-Key=a=b, tenant=c": { "api-key": "a=b", tenant: "c" },
      "authorization=Bearer a,note=b%2Cc%20d": { authorization: "Bearer a", note: "b,c d" },
    },
    { "must be name=value": ["api-key", "a=b,", "a=%", "a=b%0Ac"] },
  ),
  SVC_EXPORT_CA_FILE: path,
  SVC_EXPORT_CLIENT_CERT_FILE: path,
  SVC_EXPORT_CLIENT_KEY_FILE: path,
  SVC_EXPORT_COMPRESSION: choice("gzip", ["gzip", "none"], "zstd"),
  SVC_EXPORT_SIGNALS: behavior(
    ["traces", "logs", "metrics"],
    { "logs, traces": ["logs", "traces"] },
    { "must be traces, logs or metrics": ["profiles", "logs,"] },
  ),
  SVC_EXPORT_NAME: behavior("default", same("loki-2"), {
    "must be 1 to 32 lower-case letters": ["Loki 2"],
    "must be 1 to 32": ["n".repeat(33)],
  }),
  SVC_EXPORT_START: choice("oldest", ["oldest", "now"], "newest"),
  SVC_EXPORT_TIMEOUT: behavior(
    10,
    { "1s": 1, "5m": 300 },
    { "must be at least 1s": ["0s"], "must be at most 300s": ["301s"] },
  ),
  SVC_EXPORT_CONCURRENCY: integer(8, 1, 64),
  SVC_EXPORT_REQUEST_BYTES: integer(1024 * 1024, 1024, 64 * 1024 * 1024),
  SVC_EXPORT_BUFFER_BYTES: integer(64 * 1024 * 1024, 1024 * 1024, 1024 * 1024 * 1024),
  SVC_EXPORT_MAX_DEAD_LETTERS: integer(10_000, 0, 10_000_000),
  SVC_EXPORT_MAX_HOST_DEAD_LETTERS: integer(1_000, 0, 10_000_000),
  SVC_EXPORT_ATTEST_HOST: boolean(true),
  SVC_EXPORT_METRICS_ADDR: optional(
    { "0.0.0.0:9464": { host: "0.0.0.0", port: 9464 } },
    { "must be host:port": ["9464"], "a port of at most 65535": ["h:65536"] },
  ),
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
    (name, { unset, accepts, rejects }) => {
      const schema = (variables as Readonly<Record<string, v.GenericSchema>>)[
        name
      ] as v.GenericSchema;
      const parsed = v.safeParse(schema, undefined);
      expect(parsed.success ? plain(parsed.output) : required).toEqual(unset);
      for (const [value, expected] of Object.entries(accepts)) {
        expect([value, plain(v.parse(schema, value))]).toEqual([value, expected]);
        expect([value, messageOf(name, value) ?? "no fault"]).toEqual([
          value,
          expect.not.stringContaining("must"),
        ]);
      }
      for (const [message, values] of Object.entries(rejects))
        for (const value of values)
          expect([value, messageOf(name, value)]).toEqual([
            value,
            expect.stringContaining(message),
          ]);
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
  const inference = [
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
  const choices = [
    ingest,
    localCa,
    command,
    { ...localCa, SVC_ENROLLMENT_SIGNER_MODE: "local-ca" },
    { ...command, SVC_ENROLLMENT_SIGNER_MODE: "external-command" },
    { SVC_COMPLETENESS_KEY_FILE: "/log.pem", SVC_COMPLETENESS_ORIGIN: "core.example/completeness" },
    { SVC_COMPLETENESS_KEY_FILE: "/log.pem", SVC_ADVERTISED_CORE_URL: "https://core.example" },
    {
      SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: "/receipts.pem",
      SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-2026",
    },
  ];

  it.each([
    { program: "core", count: 6, needed: core, more: choices, parse: parseCoreConfig },
    { program: "web", count: 8, needed: web, more: [], parse: parseWebConfig },
  ])(
    "of $program are $count, and every documented choice is accepted with them",
    ({ count, needed, more, parse }) => {
      const faultsOf = (env: object) => {
        try {
          parse({ ...needed, ...env }, () => "");
          return [];
        } catch (error) {
          return error instanceof ConfigError ? error.faults : [error];
        }
      };
      for (const env of [{}, ...inference, ...more])
        expect([env, faultsOf(env)]).toEqual([env, []]);
      expect(Object.keys(needed)).toHaveLength(count);
      for (const name of Object.keys(needed))
        expect(faultsOf({ [name]: "" })).toMatchObject([{ variable: name }]);
    },
  );
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
