import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { DCLinter } from "dclint";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

const root = fileURLToPath(new URL("../../", import.meta.url));

interface Service {
  image?: string;
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  mem_limit?: string;
  ports?: string[];
  secrets?: string[];
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

const read = async (file: string): Promise<Composition> =>
  parse(await readFile(root + file, "utf8"), { merge: true }) as Composition;

describe.each(["compose.yaml", "compose.lab.yaml"])("%s", (file) => {
  it("follows the compose schema", () => {
    const linter = new DCLinter({ rules: {}, quiet: false, debug: false, exclude: [] });
    // Its types refer to files that the package does not have.
    const results = linter.lintFiles([root + file], false) as { messages: { type: string; rule: string }[] }[];
    expect(results.length).toBe(1);
    const messages = results.flatMap((result) => result.messages);
    expect(messages.filter(({ type, rule }) => type === "error" && rule === "invalid-schema")).toEqual([]);
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
    const ports = Object.values((await read(file)).services).flatMap((service) => service.ports ?? []);
    expect(ports.filter((port) => !port.startsWith("127.0.0.1:") && !port.endsWith(":8443"))).toEqual([]);
  });
});

describe("compose.yaml", () => {
  it("pins the database's image by digest", async () => {
    const { services } = await read("compose.yaml");
    for (const name of ["database", "web-role"])
      expect(services[name]?.image).toMatch(/:-docker\.io\/library\/postgres:[\d.]+-bookworm@sha256:[0-9a-f]{64}\}$/);
  });

  it("starts core after the database, and web after core and its role, by their health", async () => {
    const { services } = await read("compose.yaml");
    expect(services.core?.depends_on).toEqual({ database: { condition: "service_healthy" } });
    expect(services.web?.depends_on).toEqual({
      core: { condition: "service_healthy" },
      "web-role": { condition: "service_completed_successfully" },
    });
    for (const name of ["database", "core", "web"]) expect(services[name]?.healthcheck?.test[0]).toBe("CMD");
  });

  it("holds no secret: each is a file, named by exactly the services that need it", async () => {
    const { services, secrets } = await read("compose.yaml");
    for (const [name, { file }] of Object.entries(secrets)) expect(file).toBe(`\${SVC_SECRETS_DIR:-./secrets}/${name}`);
    const used = new Set(Object.values(services).flatMap((service) => service.secrets ?? []));
    expect([...used].sort()).toEqual(Object.keys(secrets).sort());
    for (const { environment = {}, secrets: own = [] } of Object.values(services))
      for (const [variable, value] of Object.entries(environment)) {
        if (value.startsWith("/run/secrets/")) expect(own).toContain(value.slice("/run/secrets/".length));
        else expect(variable).not.toMatch(/PASSWORD|SECRET|KEY/);
      }
  });

  it("the lab replaces every secret file, so that it needs none", async () => {
    const [{ secrets }, lab] = await Promise.all([read("compose.yaml"), read("compose.lab.yaml")]);
    expect(Object.keys(lab.secrets).sort()).toEqual(Object.keys(secrets).sort());
    for (const { file } of Object.values(lab.secrets)) expect(file).toBe("/dev/null");
  });
});
