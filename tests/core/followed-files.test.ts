import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UnsecuredJWT } from "jose";
import { beforeAll, expect, it } from "vitest";
import { coreVariables, parseCoreConfig } from "#functions/config/core-config.ts";
import { exportVariables, parseExportConfig } from "#functions/config/export-config.ts";
import { loadExportFiles } from "#functions/export-program.ts";
import { readTrustedFile } from "#functions/node/config-files.ts";
import { followVariables } from "#functions/node/database/follow-variables.ts";
import { createCredentialReader } from "#functions/node/own-credentials.ts";
import { checkEach, type ReloadedFiles } from "#functions/node/reload-files.ts";
import { loadCoreFiles } from "#functions/server.ts";
import { marksOf, namesOf } from "#kit/env.ts";
import { tracesVariables } from "#kit/tracing/config.ts";
import { type Credential, credentials } from "#proto/system/credentials.ts";
import { createLabPki, type LabPki } from "#scripts/lab/ca/pki.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { repositoryFiles } from "#scripts/repository-files.ts";
import { parseWebConfig, webVariables } from "#ui/bff/config.ts";
import { createTestLog } from "../fakes/log.ts";
import { newFolder } from "../support/new-folder.ts";

/** Files that each use reads, and the test that shows it; nothing follows them. */
const readAtUse: Readonly<Record<string, string>> = {
  SVC_DIRECTORY_FILE: "functions/jobs/run-directory-sync.test.ts",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "functions/jobs/run-directory-sync.test.ts",
  AWS_WEB_IDENTITY_TOKEN_FILE: "functions/node/objects/open-store.test.ts",
  SVC_ADMIN_TOKEN_FILE: "each command of svc-admin",
  SVC_ENV_FILE: "Compose",
};

const dir = newFolder();
const pathOf = (variable: string) => join(dir, variable);
const put = (variable: string, contents: string) => {
  writeFileSync(pathOf(variable), contents);
  chmodSync(pathOf(variable), 0o600);
};

let contents: Readonly<Record<string, string>>;
beforeAll(async () => {
  put("license.pem", "a key");
  const pki = await createLabPki({ dir: join(dir, "pki") });
  contents = contentsOf(pki);
});

/** Valid contents of the files of all programs. */
const contentsOf = ({ ingest, enrollmentCa, serverCaFile }: LabPki) => {
  const textOf = (path: string) => readFileSync(path, "utf8");
  const url = "postgres://svc@127.0.0.1:1/svc";
  return {
    SVC_DATABASE_URL_FILE: url,
    SVC_DATABASE_SESSION_URL_FILE: url,
    SVC_CHAT_DATABASE_URL_FILE: url,
    SVC_DIRECTORY_SCIM_TOKEN_FILE: "t".repeat(32),
    SVC_WORKLOAD_ISSUERS_FILE: "issuers: []",
    SVC_OPS_BEARER_TOKEN_FILE: "a token",
    SVC_LICENSE_FILE: new UnsecuredJWT({}).setExpirationTime(2_000_000_000).encode(),
    SVC_INGEST_SERVER_CERT_FILE: textOf(ingest.certFile),
    SVC_INGEST_SERVER_KEY_FILE: textOf(ingest.keyFile),
    SVC_INGEST_CLIENT_CA_FILE: textOf(enrollmentCa.certFile),
    SVC_INGEST_CA_BUNDLE_FILE: textOf(serverCaFile),
    SVC_MANAGEMENT_CA_BUNDLE_FILE: textOf(serverCaFile),
    SVC_ENROLLMENT_CA_CERT_FILE: textOf(enrollmentCa.certFile),
    SVC_ENROLLMENT_CA_KEY_FILE: textOf(enrollmentCa.keyFile),
    SVC_INFERENCE_API_KEY_FILE: "a key",
    SVC_INGEST_STORE_CREDENTIALS_FILE: "aws_access_key_id=a aws_secret_access_key=b",
    SVC_WATCH_RECEIVERS_FILE: "{web_url: 'https://fleet.test', receivers: []}",
    SVC_TRACES_HEADERS_FILE: "name=value",
    SVC_EXPORT_HEADERS_FILE: "name=value",
    SVC_EXPORT_CA_FILE: textOf(serverCaFile),
    SVC_EXPORT_CLIENT_CERT_FILE: textOf(ingest.certFile),
    SVC_EXPORT_CLIENT_KEY_FILE: textOf(ingest.keyFile),
    IDP_CLIENT_SECRET_FILE: "a secret",
  };
};

const core = {
  SVC_LICENSE_PUBLIC_KEY_FILE: pathOf("license.pem"),
  ...coreEnvironment("postgres://unused"),
  SVC_DIRECTORY_PROVIDER: "scim",
  SVC_DIRECTORY_DELEGATE_EMAIL: "",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "",
  SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
  SVC_TRACES_URL: "https://traces.test/v1/traces",
};
const readFile = (path: string) => readTrustedFile(path).toString("utf8");
const log = createTestLog();

/** Each program: its variables, what else it needs, and how it loads and follows its files. */
const programs = {
  core: {
    variables: coreVariables,
    env: core,
    load: (env: Record<string, string>) =>
      loadCoreFiles(parseCoreConfig(env, readFile).config, log),
  },
  export: {
    variables: {
      ...exportVariables,
      SVC_DATABASE_URL: coreVariables.SVC_DATABASE_URL,
      SVC_DATABASE_SESSION_URL: coreVariables.SVC_DATABASE_SESSION_URL,
    },
    env: { ...core, SVC_EXPORT_ENDPOINT: "https://otel.test" },
    load: (env: Record<string, string>) =>
      loadExportFiles(parseExportConfig(env, readFile).config, log),
  },
  web: {
    variables: webVariables,
    env: {
      ...core,
      WEBAUTH_URL: "https://fleet.test",
      WEBAUTH_SECRET: "s".repeat(32),
      IDP_CLIENT_ID: "web",
      SVC_API_URL: "http://core.test/v1",
    },
    load: (env: Record<string, string>) =>
      followVariables(parseWebConfig(env, readFile).config, log),
  },
} as const;

/** Returns the variables of a program that name files, without those that are read once or at each use. */
const followedOf = ({ variables }: { variables: Parameters<typeof namesOf>[0] }) =>
  namesOf(variables).filter(
    (name) =>
      name.endsWith("_FILE") &&
      !(name in readAtUse) &&
      marksOf(variables[name] ?? variables[name.replace(/_FILE$/, "")]).readOnce === undefined,
  );

it.each(Object.entries(programs))(
  "%s reads again each file that a variable names",
  async (_name, program) => {
    const names = followedOf(program);
    for (const name of names) put(name, contents[name] ?? `no contents of ${name} in this test`);
    const { followed }: { followed: readonly ReloadedFiles[] } = await program.load({
      ...program.env,
      ...Object.fromEntries(names.map((name) => [name, pathOf(name)])),
    });
    const faults = async () => {
      await checkEach(followed);
      return followed.flatMap((files) => files.fault() ?? []).join();
    };
    expect(await faults()).toBe("");
    for (const name of names) {
      put(name, "");
      expect(await faults()).toContain(name);
      put(name, contents[name] ?? "");
      expect(await faults()).toBe("");
    }
  },
);

it("lists the others with a reason, and knows every variable that a program's source names", () => {
  const declared = { ...programs.core.variables, ...exportVariables, ...webVariables };
  const once = Object.entries(declared).flatMap(([name, schema]) => {
    const { hasFileForm, readOnce } = marksOf(schema);
    return readOnce === undefined ? [] : [hasFileForm ? `${name}_FILE` : name];
  });
  expect(once.toSorted()).toEqual([
    "SVC_AUTH_TOKEN_SECRET_FILE",
    "SVC_AUTH_TOKEN_SECRET_PREVIOUS_FILE",
    "SVC_CHAT_RECEIPT_SIGNING_KEY_PATH",
    "SVC_COMPLETENESS_KEY_FILE",
    "SVC_LICENSE_PUBLIC_KEY_FILE",
    "WEBAUTH_SECRET_FILE",
    "WEBAUTH_SECRET_PREVIOUS_FILE",
  ]);
  const known = new Set([
    ...Object.values(programs).flatMap(followedOf),
    ...namesOf(tracesVariables),
    ...once,
    ...Object.keys(readAtUse),
  ]);
  const named = repositoryFiles("functions", "ui/bff", "admin", "collector", "kit")
    .filter((path) => /(?<!\.test)\.ts$/.test(path))
    .flatMap((path) => readFileSync(path, "utf8").match(/\b[A-Z]+_[A-Z_]+_FILE\b/g) ?? []);
  expect([...new Set(named)].filter((name) => !known.has(name))).toEqual([]);
});

/** Variables that name or hold nothing that ends, with the reason. */
const notInCalendar: Readonly<Record<string, string>> = {
  AWS_WEB_IDENTITY_TOKEN_FILE: "of the platform, which keeps it new",
  SVC_DIRECTORY_FILE: "people and groups",
  SVC_WORKLOAD_ISSUERS: "issuers and rules; their keys are at the issuers",
  SVC_LICENSE_PUBLIC_KEY_FILE: "of who issues licenses",
};

it("has each certificate, key, token and password of a configuration in the calendar", () => {
  const declared = { ...coreVariables, ...exportVariables, ...webVariables };
  const secret = Object.entries(declared)
    .filter(([name, schema]) => marksOf(schema).hasFileForm || /_(FILE|PATH|COMMAND)$/.test(name))
    .map(([name]) => name)
    .filter((name) => !(name in notInCalendar));
  const listed = new Set(Object.values<Credential>(credentials).flatMap((each) => each.variables));
  expect(secret.filter((name) => !listed.has(name))).toEqual([]);
  expect([...listed].filter((name) => !secret.includes(name))).toEqual([]);
});

it("reports the end of what core has in use, not of a file that it refuses", async () => {
  const names = followedOf(programs.core);
  for (const name of names) put(name, contents[name] ?? "");
  const tls = ["rootcert", "cert", "key"].map((part, at) => {
    const from = [
      "SVC_INGEST_CLIENT_CA_FILE",
      "SVC_INGEST_SERVER_CERT_FILE",
      "SVC_INGEST_SERVER_KEY_FILE",
    ][at];
    return `ssl${part}=${pathOf(from ?? "")}`;
  });
  put(
    "SVC_DATABASE_URL_FILE",
    `postgres://svc@127.0.0.1:1/svc?sslmode=verify-full&${tls.join("&")}`,
  );
  const files = Object.fromEntries(names.map((name) => [name, pathOf(name)]));
  const { config } = parseCoreConfig({ ...core, ...files }, readFile);
  const loaded = await loadCoreFiles(config, log);
  const readCredentials = createCredentialReader(config, loaded);
  const endOf = (name: string) => readCredentials().find((each) => each.name === name)?.endsAt;
  const stated = Object.entries<Credential>(credentials)
    .filter(([name]) => endOf(name))
    .map(([name]) => name);
  expect(stated).toEqual([
    "ingest_server",
    "ingest_ca_bundle",
    "management_ca_bundle",
    "enrollment_ca",
    "ingest_client_ca",
    "database_client",
    "database_ca",
    "license",
  ]);
  expect(endOf("license")).toBe("2033-05-18T03:33:20.000Z");
  const before = endOf("ingest_server");
  put("SVC_INGEST_SERVER_CERT_FILE", contents.SVC_INGEST_CLIENT_CA_FILE ?? "");
  await checkEach(loaded.followed);
  expect(before).toBeTypeOf("string");
  expect(endOf("ingest_server")).toBe(before);
  put("SVC_INGEST_SERVER_CERT_FILE", contents.SVC_INGEST_SERVER_CERT_FILE ?? "");
});
