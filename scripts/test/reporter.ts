import { writeFileSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";
import type { Reporter, TestCase, TestModule } from "vitest/node";

/** The result of one run of vitest. */
export interface RunCounts {
  passed: number;
  /** Failed tests, files that did not load, and errors outside of any test. */
  failed: number;
  /** What failed and why, to be repeated at the end of a long log. */
  failures: { name: string; reasons: string[] }[];
  /** Full names of the tests that did not run. */
  skipped: string[];
  /** The slowest tests, longest first. */
  slowest: { name: string; seconds: number }[];
}

const nameOf = (test: TestCase): string => `${test.module.relativeModuleId}: ${test.fullName}`;

/** Returns the message of an error and the first lines of its stack, at most 2,000 characters. */
const reasonOf = (error: unknown): string => {
  const {
    message = String(error),
    stack = "",
    diff = "",
  } = error as { message?: string; stack?: string; diff?: string };
  const where = stack.split("\n").filter((line) => /^\s*at /.test(line));
  const parts = [message, diff, ...where.slice(0, 5)].filter((part) => part !== "");
  return stripVTControlCharacters(parts.join("\n")).slice(0, 2000);
};

/** Writes a run's `RunCounts` as JSON to the file that SVC_TEST_COUNTS_FILE names. */
export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const file = process.env.SVC_TEST_COUNTS_FILE;
    if (file === undefined) return;
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const inState = (state: string) => tests.filter((test) => test.result().state === state);
    const brokenFiles = modules.filter((module) => module.state() === "failed" && countFailed(module) === 0);
    const counts: RunCounts = {
      passed: inState("passed").length,
      failed: inState("failed").length + brokenFiles.length + unhandled.length,
      failures: [
        ...inState("failed").map((test) => ({
          name: nameOf(test),
          reasons: (test.result().errors ?? []).map(reasonOf),
        })),
        ...brokenFiles.map((file) => ({ name: file.relativeModuleId, reasons: file.errors().map(reasonOf) })),
        ...unhandled.map((error) => ({ name: "outside of any test", reasons: [reasonOf(error)] })),
      ],
      skipped: [...inState("skipped"), ...inState("pending")].map(nameOf),
      slowest: tests
        .map((test) => ({ name: nameOf(test), seconds: (test.diagnostic()?.duration ?? 0) / 1000 }))
        .sort((a, b) => b.seconds - a.seconds)
        .slice(0, 5),
    };
    writeFileSync(file, JSON.stringify(counts));
  }
}

const countFailed = (module: TestModule): number => [...module.children.allTests("failed")].length;
