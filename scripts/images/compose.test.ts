import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { DCLinter } from "dclint";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { coreVariables, parseCoreConfig } from "#functions/config/core-config.ts";
import { exportVariables } from "#functions/config/export-config.ts";
import { composeVariables, type Environment, fileFormsOf } from "#kit/env.ts";
import { parseWebConfig, webVariables } from "#ui/bff/config.ts";
import { root } from "../repository-files.ts";

interface Service {
  image?: string;
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  mem_limit?: string;
  ports?: string[];
  secrets?: string[];
  env_file?: string;
  environment?: Record<string, string>;
  healthcheck?: { test: string[] };
  depends_on?: Record<string, { condition: string }>;
  network_mode?: string;
}
interface Composition {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
  name?: string;
}

const read = async (file: string) =>
  parse(await readFile(root + file, "utf8"), { merge: true }) as Composition;

/** Replaces `${NAME}`, `${NAME-default}` and `${NAME:-default}` as Compose does. */
const interpolate = (text: string, env: Environment) =>
  text.replace(/\$\{(\w+)(?:(:?)-([^}]*))?\}/g, (_, name: string, colon = "", fallback = "") => {
    const value = env[name];
    return value === undefined || (colon && value === "") ? fallback : value;
  });

describe.each(["compose.yaml", "compose.lab.yaml"])("%s", (file) => {
  it("follows the compose schema", () => {
    const linter = new DCLinter({ rules: {}, quiet: false, debug: false, exclude: [] });
    // Its types refer to files that the package does not have.
    const results = linter.lintFiles([root + file], false) as {
      messages: { type: string; rule: string }[];
    }[];
    expect(results.length).toBe(1);
    const messages = results.flatMap((result) => result.messages);
    expect(
      messages.filter(({ type, rule }) => type === "error" && rule === "invalid-schema"),
    ).toEqual([]);
  });

  it("has no top-level name, which docker-compose 1.29 rejects", async () => {
    expect(await read(file)).not.toHaveProperty("name");
  });

  it("runs every service of ours read-only, without capabilities, with a memory limit", async () => {
    for (const [name, service] of Object.entries((await read(file)).services)) {
      // The second file adds variables to services of the first.
      if (service.image === undefined) continue;
      expect({ name, ...service }).toMatchObject({
        name,
        read_only: true,
        cap_drop: ["ALL"],
        mem_limit: expect.anything(),
      });
    }
  });

  it("publishes ports on loopback alone, but for the ingest listener, which has mutual TLS", async () => {
    const ports = Object.values((await read(file)).services).flatMap(
      (service) => service.ports ?? [],
    );
    expect(
      ports.filter((port) => !port.startsWith("127.0.0.1:") && !port.endsWith(":8443")),
    ).toEqual([]);
  });
});

describe("compose.yaml", () => {
  it("pins the database's image by digest", async () => {
    const { services } = await read("compose.yaml");
    for (const name of ["database", "web-role"])
      expect(services[name]?.image).toMatch(
        /:-docker\.io\/library\/postgres:[\d.]+-bookworm@sha256:[0-9a-f]{64}\}$/,
      );
  });

  it("starts core after the database, and web after core and its role, by their health", async () => {
    const { services } = await read("compose.yaml");
    expect(services.core?.depends_on).toEqual({ database: { condition: "service_healthy" } });
    expect(services.web?.depends_on).toEqual({
      core: { condition: "service_healthy" },
      "web-role": { condition: "service_completed_successfully" },
    });
    for (const name of ["database", "core", "web"])
      expect(services[name]?.healthcheck?.test[0]).toBe("CMD");
  });

  it("holds no secret: each is a file, named by exactly the services that need it", async () => {
    const { services, secrets } = await read("compose.yaml");
    for (const [name, { file }] of Object.entries(secrets))
      expect(file).toBe(`\${SVC_SECRETS_DIR:-./secrets}/${name}`);
    const used = new Set(Object.values(services).flatMap((service) => service.secrets ?? []));
    expect([...used].sort()).toEqual(Object.keys(secrets).sort());
    for (const { environment = {}, secrets: own = [] } of Object.values(services))
      for (const [variable, given] of Object.entries(environment)) {
        const value = interpolate(given, {});
        if (value.startsWith("/run/secrets/"))
          expect(own).toContain(value.slice("/run/secrets/".length));
        else if (value !== "") expect(variable).not.toMatch(/PASSWORD|SECRET|KEY/);
      }
  });

  it("the lab replaces every secret file, so that it needs none", async () => {
    const [{ secrets }, lab] = await Promise.all([read("compose.yaml"), read("compose.lab.yaml")]);
    expect(Object.keys(lab.secrets).sort()).toEqual(Object.keys(secrets).sort());
    for (const { file } of Object.values(lab.secrets)) expect(file).toBe("/dev/null");
  });
});

/** Returns the environment of a container, with `dotenv` as the file `.env` beside compose.yaml. */
const environmentOf = async (name: string, dotenv: Environment) => {
  const { env_file: file, environment = {} } = (await read("compose.yaml")).services[name] ?? {};
  const own = Object.entries(environment).map(([variable, value]) => [
    variable,
    interpolate(value, dotenv),
  ]);
  return {
    ...(file && interpolate(file, dotenv) === ".env" ? dotenv : {}),
    ...Object.fromEntries(own),
  };
};

it("the programs know every variable that Compose reads, so that an env file with one gets no warning", () => {
  const texts = ["compose.yaml", "compose.lab.yaml"]
    .map((file) => readFileSync(root + file, "utf8"))
    .join("\n");
  const names = new Set(Array.from(texts.matchAll(/\$\{(\w+)/g), ([, name = ""]) => name));
  const own = [...names].filter(
    (name) => !(name in { ...coreVariables, ...webVariables }) && !name.endsWith("_FILE"),
  );
  expect(own.concat("SVC_ENV_FILE").filter((name) => !composeVariables.includes(name))).toEqual([]);
  expect(composeVariables.filter((name) => !names.has(name))).toEqual([]);
});

describe("the file .env of compose.yaml", () => {
  /** The container's own: ports, and the files of secrets that only one path can have. */
  const fixed: Readonly<Record<string, readonly string[]>> = {
    core: ["PORT", "SVC_HTTP_HOST", "SVC_DATABASE_URL_FILE"],
    web: ["PORT", "SVC_HTTP_HOST", "SVC_DATABASE_URL_FILE"],
  };
  const programs = [
    {
      name: "core",
      variables: coreVariables,
      fileForms: fileFormsOf(coreVariables),
      others: fileFormsOf({ ...webVariables, ...exportVariables }),
    },
    {
      name: "web",
      variables: webVariables,
      fileForms: fileFormsOf(webVariables),
      others: fileFormsOf({ ...coreVariables, ...exportVariables }),
    },
  ];

  it.each(programs)(
    "gives $name every documented variable of it, and no secret of another program",
    async (program) => {
      const { name, variables, fileForms, others } = program;
      const names = [...Object.keys(variables), ...fileForms.map((form) => `${form}_FILE`)];
      const dotenv = Object.fromEntries(
        [...names, ...others, "POSTGRES_PASSWORD"].map((each) => [each, `own-${each}`]),
      );
      const found = await environmentOf(name, dotenv);
      expect(names.filter((each) => found[each] !== `own-${each}`)).toEqual(fixed[name]);
      const foreign = others.filter((each) => !fileForms.includes(each));
      expect(foreign.length).toBeGreaterThan(3);
      for (const secret of [...foreign, "POSTGRES_PASSWORD"])
        expect([secret, found[secret]]).toEqual([secret, ""]);
    },
  );

  const documented = {
    SVC_TENANT_ID: "00000000-0000-4000-8000-000000000001",
    SVC_DIRECTORY_DOMAIN: "example.com",
    SVC_DIRECTORY_DELEGATE_EMAIL: "admin@example.com",
    WEBAUTH_URL: "https://fleet.example.com",
    IDP_CLIENT_ID: "the-client-id",
    SVC_CORE_IMAGE: "registry.example.com/svc-core",
    SVC_WEB_PORT: "3001",
  };
  const readSecret = (path: string) =>
    path.endsWith("database-url")
      ? "postgres://svc:hush@database:5432/svc"
      : `a secret of 32 bytes or more: ${path}`;
  const coreWith = async (dotenv: Environment) =>
    parseCoreConfig(await environmentOf("core", { ...documented, ...dotenv }), readSecret);

  it("configures both as docs/compose.md shows, without a warning, and lets no revoked host forward", async () => {
    const { config, warnings } = await coreWith({});
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({ port: 8080, httpHost: null, signer: { kind: "local-ca" } });
    expect(config.ingest).toMatchObject({ port: 8443, requireEnrollment: true });
    const web = parseWebConfig(await environmentOf("web", documented), readSecret);
    expect(web.warnings).toEqual([]);
    expect(web.config).toMatchObject({ port: 3000, httpHost: null, apiUrl: "http://core:8080/v1" });
  });

  it("chooses another signer and directory, whose files of the first an empty variable removes", async () => {
    const signer = { SVC_ENROLLMENT_SIGNER_COMMAND: "/opt/sign", SVC_ENROLLMENT_CA_KEY_FILE: "" };
    expect((await coreWith(signer)).config.signer).toMatchObject({ kind: "external-command" });
    const file = { SVC_DIRECTORY_DELEGATE_EMAIL: "", SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "" };
    const directory = {
      ...file,
      SVC_DIRECTORY_PROVIDER: "file",
      SVC_DIRECTORY_FILE: "/people.yaml",
    };
    expect((await coreWith(directory)).config.directory.provider).toMatchObject({ kind: "file" });
    expect((await coreWith({ SVC_INGEST_GRPC_ADDR: "" })).config.ingest).toBeNull();
    expect((await coreWith({ SVC_INGEST_REQUIRE_ENROLLMENT: "false" })).warnings).toHaveLength(1);
  });

  it("says so when a variable of it has no effect, since a secret's file wins", async () => {
    const { warnings } = await coreWith({
      SVC_AUTH_TOKEN_SECRET: "another secret of 32 bytes or more",
    });
    expect(warnings).toEqual([
      "SVC_AUTH_TOKEN_SECRET has no effect: SVC_AUTH_TOKEN_SECRET_FILE is set, and wins",
    ]);
  });
});
