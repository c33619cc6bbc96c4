import { writeFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule } from "vitest/node";

/** What one run of vitest came to. */
export interface RunCounts {
  passed: number;
  /** Failed tests, files that did not load, and errors outside of any test. */
  failed: number;
  /** Full names of the tests that did not run. */
  skipped: string[];
  /** The slowest tests, longest first. */
  slowest: { name: string; seconds: number }[];
}

const nameOf = (test: TestCase): string => `${test.module.relativeModuleId}: ${test.fullName}`;

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
