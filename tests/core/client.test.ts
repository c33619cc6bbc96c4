import { existsSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { build } from "esbuild";
import { expect, it } from "vitest";
import * as fleet from "#client/index.ts";
import { connectFleet, type FleetClient, FleetError, items, pages } from "#client/index.ts";
import openApiJson from "#proto/openapi.json" with { type: "json" };
import { encodePem } from "#proto/pem.ts";
import { execute } from "#scripts/execute.ts";
import { dereference } from "#scripts/generate/dereference.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { clientCertificateHeader } from "#scripts/lab/core-process.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { repositoryFiles } from "#scripts/repository-files.ts";
import { collectorOf, identityPrefix, withProof } from "../support/collector.ts";
import { createTestLab, labSecret } from "../support/deployment/lab.ts";
import { isSlow } from "../support/is-slow.ts";

/* The generated client against a core process, over HTTP. */

const { dir, startCore } = await createTestLab();
const { url: baseUrl } = await startCore({
  SVC_OPS_BEARER_TOKEN: "an-ops-token",
  SVC_INFERENCE_CHAT_MODEL: "mock",
  // The role of the SQL tools is one for all databases of the server.
  SVC_CHAT_SQL_TOOL_ENABLED: "false",
});
const bearer = await bridgeTokenOf(labSecret, "admin");
const client: FleetClient = connectFleet({
  baseUrl: `${baseUrl}/`,
  bearer: async () => bearer,
  throwOnError: true,
});

interface Operation {
  operationId: string;
  security?: readonly object[];
  parameters?: readonly { name: string; in: string }[];
  requestBody?: { content: object };
}

const createPolicy = async (name: string) =>
  (
    await fleet.createEnrollmentPolicy<true>({
      client,
      body: { name, allowed_identity_prefixes: [identityPrefix] },
    })
  ).data;
const yaml = `forwarder:
  endpoint: ingest.example.com:8443
  mtls: {cert_file: current/tls.crt, key_file: current/tls.key, ca_file: ca.pem}
buffer: {dir: /var/lib/svc-collector}
`;

const { paths } = dereference<{ paths: Record<string, Record<string, Operation>> }>(openApiJson);

type Call = (options: object) => Promise<{ stream?: AsyncGenerator }>;
const isBearer = (scheme: object) => "scheme" in scheme && scheme.scheme === "bearer";

it.each(
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map((operation) => [path, ...operation] as const),
  ),
)("sends what the OpenAPI document says to %s: %s", async (path, method, operation) => {
  const sent: Request[] = [];
  const capture: typeof globalThis.fetch = async (input, init) => {
    sent.push(new Request(input, init));
    return Response.json({});
  };
  const capturing = connectFleet({
    baseUrl: "https://core.test/",
    bearer: "a-token",
    fetch: capture,
  });
  const named = ["path", "query"].map((place) => {
    const found = (operation.parameters ?? []).filter(({ in: where }) => where === place);
    return [place, Object.fromEntries(found.map(({ name }) => [name, `a ${name}`]))] as const;
  });
  const types = Object.keys(operation.requestBody?.content ?? {});
  const body =
    types.length === 0 ? {} : { body: types.includes("application/json") ? { a: 1 } : "a: 1" };
  const call = (fleet as unknown as Record<string, Call>)[operation.operationId];
  const answer = await call?.({ client: capturing, ...Object.fromEntries(named), ...body });
  await answer?.stream?.next();
  const request = sent[0] ?? new Request("https://nothing.test");
  const { pathname, searchParams } = new URL(request.url);
  expect([request.method, decodeURIComponent(pathname)]).toEqual([
    method.toUpperCase(),
    path.replaceAll(/\{(\w+)\}/g, "a $1"),
  ]);
  expect([...searchParams.keys()].map((name) => name.replace(/\[\]$/, "")).sort()).toEqual(
    Object.keys(named[1]?.[1] ?? {}).sort(),
  );
  const schemes = (operation.security ?? []).flatMap((one) => Object.keys(one));
  const isAuthorized = schemes.some((name) =>
    isBearer(openApiJson.components.securitySchemes[name as "bridgeToken"]),
  );
  expect(request.headers.get("authorization")).toBe(isAuthorized ? "Bearer a-token" : null);
  if (types.length > 0) expect(types).toContain(request.headers.get("content-type"));
  expect(await request.text()).toBe(
    types.length === 0 ? "" : typeof body.body === "string" ? "a: 1" : '{"a":1}',
  );
});

it("calls core: JSON, YAML, CSV, lines, plain text and a stream of events", async () => {
  expect((await fleet.whoami<true>({ client })).data.scopes).toContain("admin");
  const { id } = await createPolicy("client");
  const onPolicy = { client, path: { id } };
  const { token } = (await fleet.createBootstrapToken<true>({ ...onPolicy, body: { max_uses: 0 } }))
    .data;
  const key = await createTestKey();
  const device_id = "client-1";
  const csr_pem = await createTestCsr({ key, uri: identityPrefix + device_id });
  const body = { csr_pem, device_id, platform: "linux/amd64", collector_version: "1.0.0" };
  const enrolled = (await fleet.enrollCollector<true>({ client, auth: token, body })).data;
  const host = collectorOf(key, enrolled);
  const published = (
    await fleet.publishCollectorConfig<true>({ client, body: { name: "first", yaml } })
  ).data;
  if (!("id" in published)) throw new Error("was not published");
  const onIdentity = { client, path: { id: host.identityId } };
  await fleet.setDesiredConfig<true>({ ...onIdentity, body: { config_id: published.id } });
  const beat = heartbeatBody(Date.now());
  const heartbeat = await fleet.sendHeartbeat<true>({
    client,
    headers: {
      [clientCertificateHeader]: encodeURIComponent(encodePem(host.certificate, "CERTIFICATE")),
    },
    body: withProof(host, "heartbeat", beat) as fleet.SendHeartbeatData["body"],
  });
  expect(heartbeat.data.desired_config?.config_id).toBe(published.id);
  expect(
    (await fleet.reportFleetHealth<true>({ client, query: { state: ["healthy", "stale"] } }))
      .response.ok,
  ).toBe(true);
  const csv = await fleet.exportFleetHealth<true>({ client, query: { kind: "stale" } });
  expect(csv.data).toContain("identity_id,identity,device_id");
  expect((await fleet.freezeEnrollmentPolicy<true>(onPolicy)).data.state).toBe("frozen");
  expect((await fleet.exportAuditEventLines<true>({ client })).data).toContain(
    "enrollment_policy.freeze",
  );
  expect((await fleet.metrics({ client, auth: "an-ops-token" })).data).toContain(
    "core_enroll_total",
  );
  const budget = { filter: "label.env:test", bytes_per_hour: 1_073_741_824 };
  const onBudget = { client, path: { name: "test" } };
  expect((await fleet.putBudget<true>({ ...onBudget, body: budget })).data).toMatchObject(budget);
  expect((await fleet.deleteBudget<true>(onBudget)).response.status).toBe(204);

  const conversation = (await fleet.createChatSession<true>({ client, body: { title: "one" } }))
    .data;
  const onConversation = { client, path: { id: conversation.id } };
  const answer = await fleet.sendChatMessage({ ...onConversation, body: { content: "Hello" } });
  const streamed = [];
  for await (const event of answer.stream) streamed.push(event);
  expect(streamed.at(-1)).toMatchObject({ status: "complete" });
  await fleet.deleteChatSession(onConversation);
  const again = await fleet.sendChatMessage({ ...onConversation, body: { content: "Hello" } });
  await expect(again.stream.next()).rejects.toThrow("404");
});

it("iterates over every item of a list, page by page", async () => {
  for (let n = 0; n < 5; n++) await createPolicy(`paged-${n}`);
  const names: string[] = [];
  for await (const { name } of items(fleet.listEnrollmentPolicies, {
    client,
    query: { limit: 2 },
  }))
    names.push(name);
  expect(names.filter((name) => name.startsWith("paged-"))).toEqual(
    [4, 3, 2, 1, 0].map((n) => `paged-${n}`),
  );
  const sizes: number[] = [];
  for await (const page of pages(fleet.listEnrollmentPolicies, { client, query: { limit: 2 } }))
    sizes.push(page.items.length);
  expect(sizes.every((size) => size <= 2)).toBe(true);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(names.length);
  const stranger = items(fleet.listEnrollmentPolicies, { client, auth: "nobody" });
  await expect(stranger.next()).rejects.toMatchObject({
    name: "FleetError",
    problem: { code: "unauthenticated" },
  });
});

it("returns problems as typed values, and throws them on request", async () => {
  await createPolicy("taken");
  const body = { name: "taken", allowed_identity_prefixes: [identityPrefix] };
  const { data, error } = await fleet.createEnrollmentPolicy({
    client,
    body,
    throwOnError: false,
  });
  expect(data).toBeUndefined();
  if (error?.code !== "policy_name_taken") throw new Error("another problem");
  const code: "policy_name_taken" = error.code;
  expect(error).toMatchObject({ code, status: 409, action: "fix_request" });
  const thrown = await fleet
    .createEnrollmentPolicy({ client, body, throwOnError: true })
    .catch((reason) => reason);
  expect(thrown).toBeInstanceOf(FleetError);
  expect(thrown.problem).toMatchObject({ code });
});

it("reports an unavailable core, or a server that is not core, as a problem; an abort rejects with its reason", async () => {
  const page = createServer((_, response) =>
    response.writeHead(502, { "Content-Type": "text/html" }).end("<p>Bad"),
  );
  const port = await listenOnLoopback(page);
  const url = `http://127.0.0.1:${port}`;
  const other = connectFleet({ baseUrl: url, bearer });
  expect((await fleet.whoami({ client: other })).error).toMatchObject({
    code: "not_core",
    status: 502,
    action: "retry",
  });
  const aborted = AbortSignal.abort(new Error("enough"));
  await expect(fleet.whoami({ client: other, signal: aborted })).rejects.toThrow("enough");
  await new Promise((resolve) => page.close(resolve));
  expect((await fleet.whoami({ client: other })).error).toMatchObject({
    code: "unreachable",
    action: "retry",
  });
});

it("keeps only the operations that are called in a bundle", async () => {
  const contents =
    'import { connectFleet, whoami } from "./client/index.ts"; whoami({ client: connectFleet({}) });';
  const bundle = await build({
    stdin: { contents, resolveDir: process.cwd() },
    bundle: true,
    format: "esm",
    minify: true,
    write: false,
    logLevel: "error",
  });
  const text = bundle.outputFiles[0]?.text ?? "";
  expect(text.match(/\/v1\/[a-z/-]*/g)).toEqual(["/v1/whoami"]);
  expect(text.length).toBeLessThan(16_384);
});

it.runIf(isSlow)(
  "README: the example works in ten lines with the package that a fresh clone packs, where no tsc is installed, and CommonJS and Bun load it",
  {
    timeout: 300_000,
  },
  async () => {
    const package_ = join(dir, "app", "node_modules", "collector-fleet-client");
    await mkdir(package_, { recursive: true });
    const { scripts, devDependencies } = JSON.parse(await readFile("client/package.json", "utf8"));
    expect(scripts.prepack).toContain(` typescript@${devDependencies.typescript} `);
    for (const path of repositoryFiles("client/")) await cp(path, join(dir, "clone", path));
    const PATH = (process.env.PATH ?? "")
      .split(":")
      .filter((folder) => !existsSync(join(folder, "tsc")));
    const clone = {
      cwd: join(dir, "clone", "client"),
      env: { ...process.env, PATH: PATH.join(":") },
    };
    const { stdout: packed } = await execute("npm", ["pack", "--silent"], {
      ...clone,
      timeout: 120_000,
    });
    await execute("tar", ["-xzf", packed.trim(), "-C", package_, "--strip-components=1"], clone);
    const tsc = join(process.cwd(), "node_modules", ".bin", "tsc");
    const readme = await readFile("client/README.md", "utf8");
    const example = /```ts\n(.*?)```/s.exec(readme)?.[1] ?? "";
    expect(example.trim().split("\n").length).toBeLessThanOrEqual(10);
    await writeFile(join(dir, "app", "package.json"), '{"type": "module"}');
    await writeFile(join(dir, "app", "example.ts"), example);
    const settings = [
      "--noEmit",
      "--strict",
      "--exactOptionalPropertyTypes",
      "--module",
      "nodenext",
      "--types",
      "node",
    ];
    const types = ["--typeRoots", join(process.cwd(), "node_modules", "@types")];
    await execute(tsc, [...settings, ...types, "example.ts"], {
      cwd: join(dir, "app"),
      timeout: 120_000,
    });
    const run = () =>
      execute(process.execPath, ["example.ts"], {
        cwd: join(dir, "app"),
        env: { CORE_URL: baseUrl, CORE_TOKEN: bearer },
        timeout: 60_000,
      });
    expect((await run()).stdout).toMatch(/^1814400\nweb servers active\n/);
    expect((await run()).stdout).toMatch(/^is there already\nweb servers active\n/);

    const call = `fleet.whoami({ client: fleet.connectFleet({ baseUrl: process.env.CORE_URL, bearer: process.env.CORE_TOKEN }) })
  .then(({ data }) => console.log(data.scopes.join()));`;
    const app = {
      cwd: join(dir, "app"),
      env: { ...process.env, CORE_URL: baseUrl, CORE_TOKEN: bearer },
      timeout: 60_000,
    };
    await writeFile(
      join(dir, "app", "common.cjs"),
      `const fleet = require("collector-fleet-client");\n${call}`,
    );
    await writeFile(
      join(dir, "app", "module.ts"),
      `import * as fleet from "collector-fleet-client";\n${call}`,
    );
    const scopes = (await execute(process.execPath, ["common.cjs"], app)).stdout;
    expect(scopes).toContain("admin");
    expect((await execute("npx", ["-y", "bun@1.4.5", "module.ts"], app)).stdout).toBe(scopes);
  },
);
