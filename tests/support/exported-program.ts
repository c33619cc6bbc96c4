import { afterEach } from "vitest";
import { type OtlpBackend, startOtlpBackend } from "./otlp-backend.ts";
import { type Program, startProgram } from "./program.ts";

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
  return {
    startBackend: async () => {
      backend = await startOtlpBackend();
      return backend;
    },
    startExport: (env: Record<string, string> = {}, ...args: string[]): Program => {
      const program = startProgram("functions/main.ts", ["export", ...args], {
        SVC_EXPORT_ENDPOINT: backend.httpUrl,
        ...environment(),
        ...env,
      });
      programs.push(program);
      return program;
    },
  };
};

/** The texts of numbered lines of a host. */
export const texts = (host: string, from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `${host} ${from + index}`);
/** How long a line may take through programs. */
export const within = { timeout: 60_000, interval: 20 };
