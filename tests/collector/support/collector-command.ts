import { expect } from "vitest";
import { runCommandLine } from "#collector/commands/command-line.ts";
import type { CollectorEnv } from "#collector/env.ts";
import { createTestCollectorEnv, type TestCollectorEnv } from "#tests/fakes/collector-env.ts";

/** Runs a command of svc-collector; returns its exit code and its outputs. */
export const runCollector = async (
  args: readonly string[],
  env: CollectorEnv & Pick<TestCollectorEnv, "out" | "err"> = createTestCollectorEnv(),
) => {
  const code = await runCommandLine(args, env);
  return { code, out: env.out(), err: env.err() };
};

/** Matches a command that ended with this code, and this text on stderr. */
export const endedWith = (code: number, text: string) => ({
  code,
  err: expect.stringContaining(text),
});
