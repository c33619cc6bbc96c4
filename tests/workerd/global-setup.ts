import type { TestProject } from "vitest/node";
import { unstable_startWorker } from "wrangler";
import { provideDatabase } from "../global-setup.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the worker under test listens; absent in the Node run. */
    workerUrl?: string;
  }
}

/** One workerd for the run, started by wrangler as `wrangler dev` starts it, and one PostgreSQL that it reaches over TCP. */
export default async (project: TestProject): Promise<() => Promise<void>> => {
  const dropDatabase = await provideDatabase(project, { tcp: true });
  const worker = await unstable_startWorker({
    name: "svc-server-test",
    entrypoint: "tests/workerd/worker.ts",
    config: "wrangler.jsonc",
    dev: { server: { hostname: "127.0.0.1", port: 0 }, inspector: false, watch: false, logLevel: "error" },
  });
  await worker.ready;
  project.provide("workerUrl", (await worker.url).href);
  return async () => {
    await worker.dispose();
    await dropDatabase();
  };
};
