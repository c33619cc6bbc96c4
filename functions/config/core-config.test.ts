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

type Settings = Readonly<Record<string, string>>;
const parse = (settings: Settings, readFile = () => "") =>
  parseCoreConfig({ ...complete, ...settings }, readFile);
/** Returns a section of the config of these settings, or the variables that are at fault. */
const sectionOf = (
  section: "chat" | "directory" | "signer",
  settings: Settings,
  readFile?: () => string,
) => {
  try {
    return parse(settings, readFile).config[section];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.faults.map(({ variable }) => variable).sort();
  }
};
const ingest = {
  SVC_INGEST_GRPC_ADDR: "0.0.0.0:8443",
  SVC_INGEST_SERVER_CERT_FILE: "/ingest.crt",
  SVC_INGEST_SERVER_KEY_FILE: "/ingest.key",
  SVC_INGEST_CLIENT_CA_FILE: "/ca.crt",
};

it("unknown variables get a warning with the nearest known name; variables of other programs get none", () => {
  const others = {
    SVC_CHAT_ENABLED: "false",
    SVC_INFERENCE_CHAT_MODEL: "m",
    SVC_API_URL: "http://core/v1",
    SVC_ADMIN_URL: "x",
  };
  const { warnings } = parse({ ...others, SVC_TENNANT_ID: "x", SVC_OTHER: "y" });
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
  expect(() => parse({ SVC_ENROLLMENT_CLIENT_CERT_HEADER: name })).toThrow(
    "must be a header without another meaning, such as X-Client-Cert",
  );
});

it("ingest with a signer gets a warning while a revoked host may keep forwarding", () => {
  const signer = {
    SVC_ENROLLMENT_CA_CERT_FILE: "/ca.crt",
    SVC_ENROLLMENT_CA_KEY_FILE: "/ca.key",
  };
  expect(parse({ ...ingest, ...signer }).warnings).toEqual([
    "SVC_INGEST_REQUIRE_ENROLLMENT is false: a revoked host can forward until its certificate expires",
  ]);
  for (const settings of [
    ingest,
    signer,
    { ...ingest, ...signer, SVC_INGEST_REQUIRE_ENROLLMENT: "true" },
  ])
    expect(parse(settings).warnings).toEqual([]);
});

describe("the signer's settings", () => {
  const mode = (SVC_ENROLLMENT_SIGNER_MODE: string) => ({ SVC_ENROLLMENT_SIGNER_MODE });
  const cert = { SVC_ENROLLMENT_CA_CERT_FILE: "/ca.pem" };
  const key = { SVC_ENROLLMENT_CA_KEY_FILE: "/ca.key" };
  const command = { SVC_ENROLLMENT_SIGNER_COMMAND: "/bin/sign" };
  const signerOf = (settings: Settings) => sectionOf("signer", settings);

  it("infers the mode from the CA files or from the command", () => {
    const local = { kind: "local-ca", caCertFile: "/ca.pem", caKeyFile: "/ca.key" };
    const external = { kind: "external-command", command: "/bin/sign", caCertFile: "/ca.pem" };
    expect(signerOf({})).toBeNull();
    for (const settings of [{}, mode("local-ca")])
      expect(signerOf({ ...settings, ...cert, ...key })).toEqual(local);
    for (const settings of [{}, mode("external-command")])
      expect(signerOf({ ...settings, ...command, ...cert })).toEqual(external);
  });

  it("C3, S4: rejects an ambiguous mode, one CA file without the other, a key in external mode, and a relative command, naming each", () => {
    const table: [settings: Settings, ...faults: Settings[]][] = [
      [{ ...command, ...cert, ...key }, key],
      [{ ...mode("external-command"), ...command, ...cert, ...key }, key],
      [{ ...mode("external-command"), ...cert, ...key }, key, command],
      [mode("external-command"), cert, command],
      [command, cert],
      [{ ...command, ...key }, cert, key],
      [{ ...mode("local-ca"), ...command, ...cert, ...key }, command],
      [{ ...mode("local-ca"), ...command, ...cert }, key, command],
      [mode("local-ca"), cert, key],
      [cert, key],
      [key, cert],
      [{ SVC_ENROLLMENT_SIGNER_COMMAND: "bin/sign", ...cert }, command],
      [{ ...mode("remote"), ...cert, ...key }, mode("")],
    ];
    for (const [settings, ...faults] of table)
      expect({ settings, faults: signerOf(settings) }).toEqual({
        settings,
        faults: faults.flatMap(Object.keys),
      });
  });
});

describe("the directory's settings", () => {
  const google = { SVC_DIRECTORY_DELEGATE_EMAIL: "", SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "" };
  const token = "0123456789abcdef0123456789abcdef";
  const file = { ...google, SVC_DIRECTORY_PROVIDER: "file" };
  const scim = { ...google, SVC_DIRECTORY_PROVIDER: "scim" };
  const people = { SVC_DIRECTORY_FILE: "/people.yaml" };

  it.each<[fault: string, settings: Settings]>([
    ["SVC_DIRECTORY_DELEGATE_EMAIL: is required with SVC_DIRECTORY_PROVIDER=google", google],
    ["SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: is required with", google],
    ["SVC_DIRECTORY_FILE: is required with SVC_DIRECTORY_PROVIDER=file", file],
    ["SVC_DIRECTORY_SCIM_TOKEN: is required with SVC_DIRECTORY_PROVIDER=scim", scim],
    [
      "SVC_DIRECTORY_SCIM_TOKEN: must be 32 to 512",
      { ...scim, SVC_DIRECTORY_SCIM_TOKEN: "hunter2" },
    ],
    ["belongs to SVC_DIRECTORY_PROVIDER=scim", { SVC_DIRECTORY_SCIM_TOKEN: token }],
    ["SVC_DIRECTORY_FILE: belongs to SVC_DIRECTORY_PROVIDER=file", people],
    [
      "SVC_DIRECTORY_FILE: belongs to SVC_DIRECTORY_PROVIDER=file",
      { ...scim, ...people, SVC_DIRECTORY_SCIM_TOKEN: token },
    ],
    [
      "SVC_DIRECTORY_DELEGATE_EMAIL: belongs to SVC_DIRECTORY_PROVIDER=google",
      { ...people, SVC_DIRECTORY_PROVIDER: "file" },
    ],
  ])("need those of their provider, and none of another one: %s", (fault, settings) => {
    expect(() => parse(settings)).toThrow(fault);
    expect(() => parse(settings)).not.toThrow("hunter2");
  });

  it("name the file, or the token for SCIM, which may be a file's two lines", () => {
    expect(parse({ ...file, ...people }).config.directory).toMatchObject({
      provider: { kind: "file", path: "/people.yaml" },
    });
    expect(parse({ ...scim, SVC_DIRECTORY_SCIM_TOKEN: token }).config.directory).toMatchObject({
      provider: { kind: "scim", subject: "externalId" },
    });
    const { config } = parse(
      { ...scim, SVC_DIRECTORY_SCIM_TOKEN_FILE: "/scim-token" },
      () => `${token}\n${token.toUpperCase()}\n`,
    );
    const { provider } = config.directory;
    if (provider.kind !== "scim") throw new Error("another provider");
    expect(provider.tokens.reveal()).toEqual([token, token.toUpperCase()]);
    expect(JSON.stringify(config)).not.toContain(token);
  });
});

describe("the settings of chat", () => {
  const model = { SVC_INFERENCE_CHAT_MODEL: "a-model" };
  const chatOf = (settings: Settings, readFile?: () => string) =>
    sectionOf("chat", settings, readFile);

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
      "https://models.example.com/v1?key=1",
      "x",
    ])
      expect([url, chatOf({ ...provider, SVC_INFERENCE_BASE_URL: url })]).toEqual([
        url,
        ["SVC_INFERENCE_BASE_URL"],
      ]);
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
    const alone = { ...model, SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-2026" };
    expect(parse(alone).warnings).toEqual([expect.stringContaining("has no effect")]);
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
    expect(parse({ ...faulty, SVC_CHAT_ENABLED: "false" }, noFile).warnings).toEqual([]);
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
