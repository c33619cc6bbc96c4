import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createMeasurements } from "./measurements.ts";

it("the progress of a drive is reported every ten seconds: hosts enrolled, steps per second, lateness and failures", async () => {
  const clock = createTestClock(0);
  const lines: string[] = [];
  const measure = createMeasurements({ clock, hosts: 30, progress: (line) => lines.push(line) });
  for (let second = 1; second <= 20; second++) {
    await clock.advance(1000);
    measure.late(second < 15 ? 0 : 2000);
    measure.called("enroll", 5, second === 12 ? "timeout" : undefined);
    measure.called("heartbeat", 5, undefined);
  }
  expect(lines).toEqual([
    "10 s: 10 of 30 enrolled; 19 steps, 2/s",
    "20 s: 19 of 30 enrolled; 39 steps, 2/s; 2 s late; failed: timeout 1",
  ]);
  expect(measure.report()).toMatchObject({ failures: { timeout: 1 }, late_ms: { max: 2000 } });
});
