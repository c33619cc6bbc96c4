import { expect, it } from "vitest";
import { coreVariables } from "#functions/config/core-config.ts";
import { ConfigError, namesOf } from "#kit/env.ts";
import { parseWebConfig, webVariables } from "./config.ts";

const complete = {
  WEBAUTH_URL: "https://fleet.example/api/auth/callback/idp",
  WEBAUTH_SECRET: "a-session-secret-of-more-than-32-bytes",
  IDP_CLIENT_ID: "web",
  IDP_CLIENT_SECRET: "an-oauth-secret",
  SVC_AUTH_TOKEN_SECRET: "a-bridge-secret-of-more-than-32-bytes",
  SVC_API_URL: "http://core:8080/v1/",
  SVC_DATABASE_URL: "postgres://web@database/fleet",
  SVC_TENANT_ID: "01920000-0000-7000-8000-00000000000A",
};
const noFiles = (): string => {
  throw new Error("no such file");
};
const parse = (env: Record<string, string> = {}, readFile = noFiles) =>
  parseWebConfig({ ...complete, ...env }, readFile);
const faultsOf = (env: Record<string, string>, readFile = noFiles): Record<string, string> => {
  try {
    parseWebConfig(env, readFile);
    return {};
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return Object.fromEntries(error.faults.map(({ variable, message }) => [variable, message]));
  }
};

it("needs eight variables and has defaults for the rest", () => {
  const { config, warnings } = parse();
  expect(warnings).toEqual([]);
  expect(config).toMatchObject({
    port: 3000,
    httpHost: null,
    origin: "https://fleet.example",
    secure: true,
    sessionTtlSeconds: 1800,
    identityProvider: { issuer: "https://accounts.google.com", name: "Google", clientId: "web" },
    apiUrl: "http://core:8080/v1",
    tenantId: "01920000-0000-7000-8000-00000000000a",
    logLevel: "info",
  });
  expect(JSON.stringify(config)).not.toMatch(/secret-of-more|an-oauth-secret|postgres:/);
  expect(Object.keys(faultsOf({})).sort()).toEqual(Object.keys(complete).sort());
});

it("reports every fault at once, by variable and without a value", () => {
  const faulty = {
    WEBAUTH_URL: "fleet.example",
    WEBAUTH_SECRET: "31 bytes, which is one too few.",
    SESSION_TTL: "soon",
    IDP_ISSUER: "http://idp.example",
    SVC_API_URL: "http://core:8080",
    SVC_AUTH_TOKEN_SECRET: "short",
    SVC_TENANT_ID: "tenant",
    PORT: "65536",
  };
  const faults = faultsOf({ ...complete, ...faulty });
  expect(Object.keys(faults).sort()).toEqual(Object.keys(faulty).sort());
  for (const value of Object.values(faulty))
    expect(Object.values(faults).join("\n")).not.toContain(value);
});

it("reads secrets from files, which win, and rejects an empty or missing one", () => {
  const { config } = parse(
    { WEBAUTH_SECRET_FILE: "/secret" },
    () => "from a file, and also more than 32 bytes\n",
  );
  expect(config.sessionSecrets.secret.reveal()).toBe("from a file, and also more than 32 bytes");
  expect(faultsOf({ ...complete, IDP_CLIENT_SECRET_FILE: "/secret" })).toEqual({
    IDP_CLIENT_SECRET_FILE: "the file cannot be read",
  });
  expect(faultsOf({ ...complete, SVC_DATABASE_URL_FILE: "/secret" }, () => "\n")).toEqual({
    SVC_DATABASE_URL_FILE: "the file is empty",
  });
});

it("warns about unknown names, sessions without TLS, and one secret for two uses", () => {
  const { warnings } = parse({
    SVC_API_ULR: "x",
    WEBAUTH_SECERT: "x",
    IDP_CLIENT: "x",
    WEBAUTH_URL: "http://fleet.example",
    SVC_AUTH_TOKEN_SECRET: complete.WEBAUTH_SECRET,
  });
  expect(warnings).toEqual([
    "SVC_API_ULR is not known; did you mean SVC_API_URL?",
    "WEBAUTH_SECERT is not known; did you mean WEBAUTH_SECRET?",
    "IDP_CLIENT is not known; did you mean IDP_CLIENT_ID?",
    expect.stringContaining("WEBAUTH_URL is not https"),
    expect.stringContaining("are the same"),
  ]);
  expect(parse({ WEBAUTH_URL: "http://localhost:3000" }).warnings).toEqual([]);
});

it("shares an env file with core without a warning", () => {
  const names = namesOf(coreVariables).filter(
    (name) => !(name.replace(/_FILE$/, "") in webVariables),
  );
  const env = Object.fromEntries(names.map((name) => [name, "x"]));
  expect(env).toHaveProperty("SVC_INFERENCE_API_KEY_FILE");
  expect(parse(env).warnings).toEqual([]);
});

it.each([
  ["https://accounts.google.com", "Google"],
  ["https://login.microsoftonline.com/0192/v2.0", "Microsoft"],
  ["https://example.okta.com", "Okta"],
  ["https://id.example/realms/staff", "id.example"],
  ["https://notgoogle.com", "notgoogle.com"],
])("calls %s %s, unless told", (issuer, name) => {
  const nameWith = (env: Record<string, string>) =>
    parse({ IDP_ISSUER: issuer, ...env }).config.identityProvider.name;
  expect(nameWith({})).toBe(name);
  expect(nameWith({ IDP_NAME: "Staff login" })).toBe("Staff login");
});
