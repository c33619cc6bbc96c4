import { once } from "node:events";
import type { TestProject } from "vitest/node";
import { unstable_startWorker } from "wrangler";
import openApi from "#proto/openapi.json" with { type: "json" };
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
export default async (project: TestProject) => {
  const dropDatabase = await provideDatabase(project, { tcp: true });
  const workers = await Promise.all(
    Array.from({ length: project.config.maxWorkers }, (_, index) => startWorker(index)),
  );
  project.provide(
    "workerUrls",
    workers.map(({ url }) => url),
  );
  return async () => {
    const answers = await Promise.all(workers.map(async ({ url }) => (await fetch(url)).json()));
    await Promise.all(workers.map((worker) => worker.dispose()));
    await dropDatabase();
    const { testFiles } = await project.globTestFiles();
    if (project.vitest.state.getFiles().length === testFiles.length)
      requireAnswers(new Set(answers.flat()));
  };
};

/** Routes without a successful answer in workerd: of the Node server alone, or whose tests run a job or play a model. */
const answeredInNode =
  /^GET .*(healthz|metrics|openapi\.json|ingest|licensing|timeline|changes)$|(nudges|pause|resume|roll-back)$/;

/** Throws unless each route but those has been answered. */
const requireAnswers = (answered: ReadonlySet<string>) => {
  const missing = Object.entries(openApi.paths).flatMap(([path, operations]) => {
    const pattern = `${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`;
    return Object.keys(operations)
      .filter(
        (method) =>
          !answered.values().some((each) => new RegExp(`^${method} ${pattern}`, "i").test(each)),
      )
      .map((method) => `${method.toUpperCase()} ${path}`)
      .filter((name) => !answeredInNode.test(name));
  });
  if (missing.length > 0)
    throw new Error(`no test in workerd has an answer of ${missing.join(", ")}`);
};

const startWorker = async (index: number) => {
  const worker = await unstable_startWorker({
    name: `svc-server-test-${index}`,
    entrypoint: "tests/workerd/worker.ts",
    config: "wrangler.jsonc",
    dev: {
      server: { hostname: "127.0.0.1", port: 0 },
      inspector: false,
      watch: false,
      logLevel: "error",
    },
  });
  // Not through wrangler's proxy in front of it, another workerd, which would take a third of a request's time.
  const [{ proxyData }] = await once(worker.raw, "reloadComplete");
  const { protocol, hostname, port } = proxyData.userWorkerUrl;
  return { url: `${protocol}//${hostname}:${port}/`, dispose: () => worker.dispose() };
};
