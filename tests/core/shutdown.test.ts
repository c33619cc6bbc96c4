import { beforeAll, expect, it } from "vitest";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { isListening } from "#scripts/ports.ts";
import { useTestDatabase } from "../support/database.ts";
import { logged, startCore } from "../support/program.ts";

const database = await useTestDatabase();
beforeAll(async () => {
  await seedPeople(database.connect().db, Date.now());
});
const env = {
  ...coreEnvironment(database.url),
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_TRUST_LOOPBACK_OPS: "true",
  SVC_SHUTDOWN_DELAY: "3s",
};

it("is not ready before it closes its listeners, and serves until then", async () => {
  const { program: core, url: origin } = await startCore(env);
  const readiness = () =>
    fetch(`${origin}/readyz`, { headers: { connection: "close" } }).then(
      async (response) => ({
        status: response.status,
        checks: (await response.json()).checks,
      }),
      () => undefined,
    );
  expect((await readiness())?.checks).toContainEqual({
    name: "stopping",
    status: "ready",
    detail: "Core serves requests.",
  });
  const signaledAt = performance.now();
  core.child.kill("SIGTERM");
  await logged(core, "stopping");
  expect(await readiness()).toMatchObject({
    status: 503,
    checks: [{ name: "stopping", status: "not_ready" }, {}, {}, {}, {}, {}, {}],
  });
  // The process is up, and other requests are served.
  expect((await fetch(`${origin}/healthz`)).status).toBe(200);
  expect((await fetch(`${origin}/v1/operator/whoami`)).status).toBeLessThan(500);
  await expect.poll(() => isListening(new URL(origin).host)).toBe(false);
  expect(performance.now() - signaledAt).toBeGreaterThan(2_900);
  expect(await core.exited).toBe(0);
});

it("W1: stops after an error that no request contains, serves until then, and exits with 1", async () => {
  const plant = "process.on('SIGUSR2', () => { throw new Error('planted'); })";
  const { program: core, url } = await startCore({
    ...env,
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(plant)}`,
  });
  core.child.kill("SIGUSR2");
  expect(await logged(core, "an error escaped, and stops the program")).toMatchObject({
    level: "error",
  });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect(await core.exited).toBe(1);
  expect(core.records.at(-1)).toMatchObject({ msg: "stopped" });
});
