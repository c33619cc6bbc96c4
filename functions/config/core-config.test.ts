import { describe, expect, it } from "vitest";
import { ConfigError } from "#kit/env.ts";
import { parseCoreConfig } from "./core-config.ts";

const complete = {
  SVC_DATABASE_URL: "postgres://localhost/core",
  SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
  SVC_AUTH_TOKEN_SECRET: "a-test-secret-of-more-than-32-bytes",
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere/directory.json",
};

/** The signer of these settings, or the variables that are at fault. */
const signerOf = (settings: Readonly<Record<string, string>>) => {
  const names: Record<string, string> = {
    mode: "SVC_ENROLLMENT_SIGNER_MODE",
    command: "SVC_ENROLLMENT_SIGNER_COMMAND",
    cert: "SVC_ENROLLMENT_CA_CERT_FILE",
    key: "SVC_ENROLLMENT_CA_KEY_FILE",
  };
  const env = Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [names[name] ?? name, value]),
  );
  try {
    return parseCoreConfig({ ...complete, ...env }, () => "").config.signer;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.faults
      .map(({ variable }) => Object.keys(names).find((name) => names[name] === variable))
      .sort();
  }
};

it("unknown variables get a warning with the nearest known name; variables of other programs get none", () => {
  const others = {
    SVC_CHAT_ENABLED: "false",
    SVC_INFERENCE_CHAT_MODEL: "m",
    SVC_API_URL: "http://core/v1",
    SVC_ADMIN_URL: "x",
  };
  const { warnings } = parseCoreConfig(
    { ...complete, ...others, SVC_TENNANT_ID: "x", SVC_OTHER: "y" },
    () => "",
  );
  expect(warnings).toEqual([
    "SVC_OTHER is not known",
    "SVC_TENNANT_ID is not known; did you mean SVC_TENANT_ID?",
  ]);
});

it.each([
  "Authorization",
  "Cookie",
  "Host",
  "X-Forwarded-For",
  "Content-Type",
  "TE",
  "Traceparent",
  "CF-Connecting-IP",
])("the header of client certificates is not %s, which has another meaning", (name) => {
  const env = { ...complete, SVC_ENROLLMENT_CLIENT_CERT_HEADER: name };
  expect(() => parseCoreConfig(env, () => "")).toThrow(
    "must be a header without another meaning, such as X-Client-Cert",
  );
});

it("ingest with a signer gets a warning while a revoked host may keep forwarding", () => {
  const ingest = {
    SVC_INGEST_GRPC_ADDR: "0.0.0.0:8443",
    SVC_INGEST_SERVER_CERT_FILE: "/ingest.crt",
    SVC_INGEST_SERVER_KEY_FILE: "/ingest.key",
    SVC_INGEST_CLIENT_CA_FILE: "/ca.crt",
  };
  const signer = {
    SVC_ENROLLMENT_CA_CERT_FILE: "/ca.crt",
    SVC_ENROLLMENT_CA_KEY_FILE: "/ca.key",
  };
  const warningsOf = (env: Readonly<Record<string, string>>) =>
    parseCoreConfig({ ...complete, ...env }, () => "").warnings;
  expect(warningsOf({ ...ingest, ...signer })).toEqual([
    "SVC_INGEST_REQUIRE_ENROLLMENT is false: a revoked host can forward until its certificate expires",
  ]);
  expect(warningsOf({ ...ingest, ...signer, SVC_INGEST_REQUIRE_ENROLLMENT: "true" })).toEqual([]);
  expect([...warningsOf(ingest), ...warningsOf(signer)]).toEqual([]);
});

const parse = (env: Readonly<Record<string, string>>) =>
  parseCoreConfig({ ...complete, ...env }, () => "");
it("the sink's settings need servers for nats, and warn of a connection to another machine without TLS", () => {
  expect(() => parse({ SVC_INGEST_SINK: "nats" })).toThrow(
    "SVC_NATS_URLS: is required when SVC_INGEST_SINK is nats",
  );
  const warningsAt = (SVC_NATS_URLS: string) =>
    parse({ SVC_INGEST_SINK: "nats", SVC_NATS_URLS }).warnings;
  expect(warningsAt("nats://127.0.0.1:4222")).toEqual([]);
  expect(warningsAt("tls://nats.example:4222")).toEqual([]);
  expect(warningsAt("nats://nats.example:4222")).toEqual([expect.stringContaining("without TLS")]);
});

describe("the signer's settings", () => {
  it("infers the mode from the CA files or from the command", () => {
    const local = { kind: "local-ca", caCertFile: "/ca.pem", caKeyFile: "/ca.key" };
    const external = { kind: "external-command", command: "/bin/sign", caCertFile: "/ca.pem" };
    expect(signerOf({})).toBeNull();
    expect(signerOf({ cert: "/ca.pem", key: "/ca.key" })).toEqual(local);
    expect(signerOf({ mode: "local-ca", cert: "/ca.pem", key: "/ca.key" })).toEqual(local);
    expect(signerOf({ command: "/bin/sign", cert: "/ca.pem" })).toEqual(external);
    expect(signerOf({ mode: "external-command", command: "/bin/sign", cert: "/ca.pem" })).toEqual(
      external,
    );
  });

  it("C3, S4: rejects an ambiguous mode, one CA file without the other, a key in external mode, and a relative command, naming each", () => {
    const table: [settings: Record<string, string>, faults: string[]][] = [
      [{ command: "/bin/sign", cert: "/ca.pem", key: "/ca.key" }, ["key"]],
      [
        { mode: "external-command", command: "/bin/sign", cert: "/ca.pem", key: "/ca.key" },
        ["key"],
      ],
      [{ mode: "external-command", cert: "/ca.pem", key: "/ca.key" }, ["command", "key"]],
      [{ mode: "external-command" }, ["cert", "command"]],
      [{ command: "/bin/sign" }, ["cert"]],
      [{ command: "/bin/sign", key: "/ca.key" }, ["cert", "key"]],
      [{ mode: "local-ca", command: "/bin/sign", cert: "/ca.pem", key: "/ca.key" }, ["command"]],
      [{ mode: "local-ca", command: "/bin/sign", cert: "/ca.pem" }, ["command", "key"]],
      [{ mode: "local-ca" }, ["cert", "key"]],
      [{ cert: "/ca.pem" }, ["key"]],
      [{ key: "/ca.key" }, ["cert"]],
      [{ command: "bin/sign", cert: "/ca.pem" }, ["command"]],
      [{ mode: "remote", cert: "/ca.pem", key: "/ca.key" }, ["mode"]],
    ];
    for (const [settings, faults] of table)
      expect({ settings, faults: signerOf(settings) }).toEqual({ settings, faults });
  });
});

describe("the directory's settings", () => {
  const directoryOf = (settings: Readonly<Record<string, string>>) => {
    try {
      return parseCoreConfig({ ...complete, ...settings }, () => "").config.directory;
    } catch (error) {
      return String(error);
    }
  };

  const google = { SVC_DIRECTORY_DELEGATE_EMAIL: "", SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "" };
  it("need Google's for google alone, and the file's for file alone", () => {
    const missing = directoryOf(google);
    expect(missing).toContain(
      "SVC_DIRECTORY_DELEGATE_EMAIL: is required with SVC_DIRECTORY_PROVIDER=google",
    );
    expect(missing).toContain("SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: is required with");
    const file = { ...google, SVC_DIRECTORY_PROVIDER: "file" };
    expect(directoryOf(file)).toContain(
      "SVC_DIRECTORY_FILE: is required with SVC_DIRECTORY_PROVIDER=file",
    );
    expect(directoryOf({ ...file, SVC_DIRECTORY_FILE: "/people.yaml" })).toMatchObject({
      provider: { kind: "file", path: "/people.yaml" },
    });
  });

  it("need a token for SCIM, which may be a file's two lines, and no variable of another provider", () => {
    const scim = { ...google, SVC_DIRECTORY_PROVIDER: "scim" };
    expect(directoryOf(scim)).toContain(
      "SVC_DIRECTORY_SCIM_TOKEN: is required with SVC_DIRECTORY_PROVIDER=scim",
    );
    const token = "0123456789abcdef0123456789abcdef";
    expect(directoryOf({ ...scim, SVC_DIRECTORY_SCIM_TOKEN: token })).toMatchObject({
      provider: { kind: "scim", subject: "externalId" },
    });
    const { config } = parseCoreConfig(
      { ...complete, ...scim, SVC_DIRECTORY_SCIM_TOKEN_FILE: "/scim-token" },
      () => `${token}\n${token.toUpperCase()}\n`,
    );
    const { provider } = config.directory;
    if (provider.kind !== "scim") throw new Error("another provider");
    expect(provider.tokens.map((one) => one.reveal())).toEqual([token, token.toUpperCase()]);
    expect(JSON.stringify(config)).not.toContain(token);
    const short = directoryOf({ ...scim, SVC_DIRECTORY_SCIM_TOKEN: "hunter2" });
    expect(short).toContain("SVC_DIRECTORY_SCIM_TOKEN: must be 32 to 512");
    expect(short).not.toContain("hunter2");
    expect(directoryOf({ SVC_DIRECTORY_SCIM_TOKEN: token })).toContain(
      "belongs to SVC_DIRECTORY_PROVIDER=scim",
    );
    expect(
      directoryOf({ ...scim, SVC_DIRECTORY_SCIM_TOKEN: token, SVC_DIRECTORY_FILE: "/people.yaml" }),
    ).toContain("SVC_DIRECTORY_FILE: belongs to SVC_DIRECTORY_PROVIDER=file");
  });

  it("reject those of another provider", () => {
    expect(directoryOf({ SVC_DIRECTORY_FILE: "/people.yaml" })).toContain(
      "SVC_DIRECTORY_FILE: belongs to SVC_DIRECTORY_PROVIDER=file",
    );
    const both = directoryOf({
      SVC_DIRECTORY_PROVIDER: "file",
      SVC_DIRECTORY_FILE: "/people.yaml",
    });
    expect(both).toContain(
      "SVC_DIRECTORY_DELEGATE_EMAIL: belongs to SVC_DIRECTORY_PROVIDER=google",
    );
  });
});

describe("the settings of chat", () => {
  const model = { SVC_INFERENCE_CHAT_MODEL: "a-model" };
  const chatOf = (settings: Readonly<Record<string, string>>, readFile = () => "") => {
    try {
      return parseCoreConfig({ ...complete, ...settings }, readFile).config.chat;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return error.faults.map(({ variable }) => variable).sort();
    }
  };

  it("turn it on by the model alone; the provider is then the mock", () => {
    expect(chatOf({})).toBeNull();
    expect(chatOf({ SVC_INFERENCE_PROVIDER: "anthropic" })).toBeNull();
    expect(chatOf({ ...model, SVC_CHAT_ENABLED: "false" })).toBeNull();
    expect(chatOf(model)).toEqual({
      inference: { provider: "mock", model: "a-model" },
      sqlToolEnabled: true,
      sqlDatabaseUrl: null,
      receiptKey: null,
    });
  });

  it("need a key for every provider but the mock, and a base URL for those without one of their own", () => {
    const provider = (name: string, more = {}) =>
      chatOf({ ...model, SVC_INFERENCE_PROVIDER: name, ...more });
    const key = { SVC_INFERENCE_API_KEY: "k-123" };
    const url = { SVC_INFERENCE_BASE_URL: "http://127.0.0.1:4000/v1" };
    for (const name of ["openai", "anthropic"]) {
      expect(provider(name)).toEqual(["SVC_INFERENCE_API_KEY"]);
      expect(provider(name, key)).toMatchObject({ inference: { provider: name, baseUrl: null } });
    }
    for (const name of ["openai-compatible", "litellm"]) {
      expect(provider(name)).toEqual(["SVC_INFERENCE_API_KEY", "SVC_INFERENCE_BASE_URL"]);
      expect(provider(name, key)).toEqual(["SVC_INFERENCE_BASE_URL"]);
      expect(provider(name, { ...key, ...url })).toMatchObject({
        inference: { baseUrl: url.SVC_INFERENCE_BASE_URL },
      });
    }
    expect(provider("llama")).toEqual(["SVC_INFERENCE_PROVIDER"]);
  });

  it("T3: reject a base URL over which a key could leak", () => {
    const provider = {
      ...model,
      SVC_INFERENCE_PROVIDER: "litellm",
      SVC_INFERENCE_API_KEY: "k-123",
    };
    for (const url of [
      "http://models.example.com/v1",
      "ftp://127.0.0.1/",
      "https://me:pw@models.example.com/",
      "x",
    ])
      expect([url, chatOf({ ...provider, SVC_INFERENCE_BASE_URL: url })]).toEqual([
        url,
        ["SVC_INFERENCE_BASE_URL"],
      ]);
    expect(
      chatOf({ ...provider, SVC_INFERENCE_BASE_URL: "https://models.example.com/v1?key=1" }),
    ).toEqual(["SVC_INFERENCE_BASE_URL"]);
  });

  it("name every fault at once, with those of other variables", () => {
    const faults = chatOf({
      ...model,
      SVC_INFERENCE_PROVIDER: "litellm",
      SVC_INFERENCE_BASE_URL: "nowhere",
      SVC_CHAT_SQL_TOOL_ENABLED: "yes",
      SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: "/keys/receipts.pem",
      SVC_LOG_LEVEL: "loud",
    });
    expect(faults).toEqual([
      "SVC_CHAT_RECEIPT_SIGNING_KEY_ID",
      "SVC_CHAT_SQL_TOOL_ENABLED",
      "SVC_INFERENCE_API_KEY",
      "SVC_INFERENCE_BASE_URL",
      "SVC_LOG_LEVEL",
    ]);
  });

  it("need an id for the receipt key, also without a model; an id alone has no effect, and a warning", () => {
    const path = { SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: "/keys/receipts.pem" };
    expect(chatOf(path)).toEqual(["SVC_CHAT_RECEIPT_SIGNING_KEY_ID"]);
    expect(
      chatOf({ ...model, ...path, SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-2026" }),
    ).toMatchObject({
      receiptKey: { file: "/keys/receipts.pem", id: "receipts-2026" },
    });
    const alone = { ...complete, ...model, SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-2026" };
    expect(parseCoreConfig(alone, () => "").warnings).toEqual([
      expect.stringContaining("has no effect"),
    ]);
  });

  it("cannot stop a core whose chat is off, whatever they hold", () => {
    const faulty = {
      SVC_INFERENCE_CHAT_MODEL: "m".repeat(257),
      SVC_INFERENCE_PROVIDER: "llama",
      SVC_INFERENCE_API_KEY_FILE: "/nowhere",
      SVC_INFERENCE_BASE_URL: "nowhere",
      SVC_CHAT_SQL_TOOL_ENABLED: "yes",
      SVC_CHAT_DATABASE_URL_FILE: "/nowhere",
      SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: "/nowhere",
    };
    const noFile = () => {
      throw new Error("ENOENT");
    };
    expect(chatOf(faulty, noFile)).toHaveLength(7);
    expect(chatOf({ ...faulty, SVC_CHAT_ENABLED: "false" }, noFile)).toBeNull();
    const { warnings } = parseCoreConfig(
      { ...complete, ...faulty, SVC_CHAT_ENABLED: "false" },
      noFile,
    );
    expect(warnings).toEqual([]);
    const remote = { ...model, SVC_INFERENCE_PROVIDER: "anthropic", SVC_CHAT_ENABLED: "false" };
    expect(chatOf(remote, noFile)).toBeNull();
    expect(chatOf({ ...faulty, SVC_CHAT_ENABLED: "off" }, noFile)).toContain("SVC_CHAT_ENABLED");
  });

  it("take the provider's key and the database of the SQL tools from files, and print neither", () => {
    const settings = {
      ...model,
      SVC_INFERENCE_PROVIDER: "openai",
      SVC_INFERENCE_API_KEY_FILE: "/run/secrets/key",
      SVC_CHAT_DATABASE_URL_FILE: "/run/secrets/url",
    };
    const chat = chatOf(settings, () => "postgres://reader:hunter2@localhost/core\n");
    expect(chat).toMatchObject({ inference: { provider: "openai" } });
    expect(JSON.stringify(chat)).not.toContain("hunter2");
    expect(chatOf(settings, () => "")).toEqual([
      "SVC_CHAT_DATABASE_URL_FILE",
      "SVC_INFERENCE_API_KEY_FILE",
    ]);
  });
});
