import { afterEach, expect } from "vitest";
import { type OtlpBackend, startOtlpBackend } from "../ingest/otlp-backend.ts";
import { logged, type Program, startProgram } from "../program.ts";
import type { EnvelopeStore } from "../stored-envelopes.ts";

/** Starts `svc-server export` as processes that end with the test, each to the test's own backend. */
export const createExports = (environment: () => Record<string, string>) => {
  const programs: Program[] = [];
  let backend: OtlpBackend;
  afterEach(async () => {
    for (const program of programs.splice(0)) {
      program.child.kill("SIGKILL");
      await program.exited;
    }
    await backend.close();
  });
  const startExport = (env: Record<string, string> = {}, ...args: string[]) => {
    const program = startProgram("functions/main.ts", ["export", ...args], {
      SVC_EXPORT_ENDPOINT: backend.httpUrl,
      ...environment(),
      ...env,
    });
    programs.push(program);
    return program;
  };
  return {
    startBackend: async () => {
      backend = await startOtlpBackend();
      return backend;
    },
    startExport,
    /** Kills the process that exports: within 30 s another one has sent all the lines of these hosts, in their order. */
    handOver: async (store: EnvelopeStore, hosts: readonly string[]) => {
      const env = { SVC_EXPORT_REQUEST_BYTES: "1024" };
      const one = startExport(env);
      await logged(one, "exporting");
      await logged(startExport(env), "another process exports; waiting to take over");
      const storeAll = async (from: number) => {
        for (let part = 0; part < 20; part += 5)
          for (const host of hosts) await store.lines(host, texts(host, from + part, 5));
      };
      await storeAll(0);
      await expect.poll(() => backend.accepted.length, within).toBeGreaterThan(1);
      one.child.kill("SIGKILL");
      const killedAt = performance.now();
      await storeAll(20);
      // At least once, and without what repeats in the order of the queue.
      const linesOf = (host: string) =>
        backend.lines().filter((line) => line.startsWith(`${host} `));
      for (const host of hosts)
        await expect.poll(() => [...new Set(linesOf(host))], within).toEqual(texts(host, 0, 40));
      expect(performance.now() - killedAt).toBeLessThan(30_000);
    },
  };
};

/** The texts of numbered lines of a host. */
export const texts = (host: string, from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `${host} ${from + index}`);
/** How long a line may take through programs. */
export const within = { timeout: 60_000, interval: 20 };
