/** @module-tag workerd */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, inject, it } from "vitest";
import { unstable_startWorker } from "wrangler";
import { execute } from "#scripts/execute.ts";
import { useTestCore } from "../support/core.ts";
import { newFolder } from "../support/new-folder.ts";

const test = await useTestCore();

it("serves the route tests of this run", async () => {
  expect(inject("workerUrls")?.[0]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
  // Only the Node server counts; a test core in this process would answer 403.
  const metrics = await test.fetch(new Request("http://core.test/metrics"));
  expect(metrics.status).toBe(404);
  expect((await test.api("GET", "/readyz")).body.status).toBe("ready");
});

it("reads its configuration from bindings, and answers a faulty one with a problem that names nothing", async () => {
  const server = { hostname: "127.0.0.1", port: 0 };
  const start = (env: Record<string, string | undefined>) =>
    unstable_startWorker({
      name: "svc-server-bindings",
      config: "wrangler.jsonc",
      bindings: Object.fromEntries(
        Object.entries(env).map(
          ([name, value]) => [name, { type: "plain_text", value: value ?? "" }] as const,
        ),
      ),
      dev: { server, inspector: false, watch: false, logLevel: "none" },
    });
  const env = {
    SVC_DATABASE_URL: test.databaseUrl,
    SVC_TENANT_ID: test.config.tenantId,
    SVC_AUTH_TOKEN_SECRET: test.config.authTokenSecret.reveal(),
    SVC_DIRECTORY_DOMAIN: "example.test",
    SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere",
    SVC_ENROLLMENT_CA_CERT: test.ca.pem,
    SVC_ENROLLMENT_CA_KEY: test.ca.key.pem,
  };
  const worker = await start(env);
  const url = await worker.url;
  const ready = await fetch(new URL("/readyz", url));
  expect(ready.status).toBe(200);
  // Two requests at once and one after the other: a client that outlived its request would break the second.
  const again = await Promise.all([1, 2].map(() => fetch(new URL("/readyz", url))));
  expect(again.map(({ status }) => status)).toEqual([200, 200]);
  expect((await fetch(new URL("/v1/whoami", url))).status).toBe(401);
  const document = await fetch(new URL("/v1/openapi.json", url), {
    headers: { "Accept-Encoding": "br" },
  });
  expect([document.headers.get("content-encoding"), (await document.json()).openapi]).toEqual([
    "br",
    "3.1.0",
  ]);
  await worker.dispose();

  const broken = await start({ ...env, SVC_AUTH_TOKEN_SECRET: "too-short" });
  const refused = await fetch(new URL("/healthz", await broken.url));
  expect(refused.status).toBe(500);
  const problem = await refused.text();
  expect(JSON.parse(problem)).toMatchObject({ code: "internal", status: 500 });
  expect(problem).not.toMatch(/SVC_AUTH_TOKEN_SECRET|too-short/);
  await broken.dispose();
});

it("refuses an anonymous caller of every route that is neither open nor of Node alone", async () => {
  const id = "01920000-0000-7000-8000-0000000000ff";
  const statuses: Record<string, number> = {};
  for (const { guard, method, path } of test.routes)
    if (guard.kind !== "open" && guard.kind !== "ops")
      statuses[`${method} ${path}`] = (await test.api(method, path.replaceAll(/:\w+/g, id))).status;
  expect(Object.keys(statuses).length).toBeGreaterThan(100);
  expect(Object.entries(statuses).filter(([, status]) => status !== 401)).toEqual([]);
});

it("is less than 1 MiB when compressed", async () => {
  const folder = newFolder();
  await execute(process.execPath, [
    "node_modules/wrangler/bin/wrangler.js",
    "deploy",
    "--dry-run",
    `--outdir=${folder}`,
  ]);
  const bundle = gzipSync(await readFile(join(folder, "worker.js")));
  expect(bundle.length).toBeGreaterThan(10_000);
  expect(bundle.length).toBeLessThan(1024 * 1024);
});
