import { expect, it } from "vitest";
import { createTestLog } from "#tests/fakes/log.ts";
import { runEvery } from "./run-every.ts";

it("logs the stack of a failure once, until the job works or fails otherwise", async () => {
  const log = createTestLog();
  const stop = new AbortController();
  const faults = ["away", "away", "refused", "", "refused"];
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    sleep: async () => void (faults.length === 0 && stop.abort()),
  };
  await runEvery({ name: "probe", intervalMs: 1000, clock, signal: stop.signal, log }, async () => {
    const fault = faults.shift();
    if (fault) throw new Error(fault);
    return undefined;
  });
  expect(
    log.lines.map(({ fields }) => ("err" in fields ? (fields.err as Error).message : fields)),
  ).toEqual(["away", { job: "probe", failures: 2, retry_seconds: 1 }, "refused", "refused"]);
});
