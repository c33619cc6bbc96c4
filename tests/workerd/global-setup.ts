import { once } from "node:events";
import type { TestProject } from "vitest/node";
import { unstable_startWorker } from "wrangler";
import { provideDatabase } from "../global-setup.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the workers under test listen; absent in the Node run. */
    workerUrls?: readonly string[];
  }
}

/**
 * A workerd for each process of the tests, as one uses one core, started by wrangler as `wrangler dev` starts it, and one PostgreSQL that they
 * reach over TCP.
 */
export default async (project: TestProject): Promise<() => Promise<void>> => {
  const dropDatabase = await provideDatabase(project, { tcp: true });
  const workers = await Promise.all(
    Array.from({ length: project.config.maxWorkers }, (_, index) => startWorker(index)),
  );
  project.provide(
    "workerUrls",
    workers.map(({ url }) => url),
  );
  return async () => {
    await Promise.all(workers.map((worker) => worker.dispose()));
    await dropDatabase();
  };
};

const startWorker = async (index: number) => {
  const worker = await unstable_startWorker({
    name: `svc-server-test-${index}`,
    entrypoint: "tests/workerd/worker.ts",
    config: "wrangler.jsonc",
    dev: { server: { hostname: "127.0.0.1", port: 0 }, inspector: false, watch: false, logLevel: "error" },
  });
  // Not through wrangler's proxy in front of it, another workerd, which would take a third of a request's time.
  const [{ proxyData }] = (await once(worker.raw, "reloadComplete")) as Parameters<
    typeof worker.raw.proxy.onReloadComplete
  >;
  const { protocol, hostname, port } = proxyData.userWorkerUrl;
  return { url: `${protocol}//${hostname}:${port}/`, dispose: () => worker.dispose() };
};
