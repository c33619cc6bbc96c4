import { expect, it } from "vitest";
import { measureLosses } from "./losses.ts";

/** A sink, and agents that deliver what they kept in two parts, some time after they started and it accepts. */
const scenario = (keeps: (units: number) => number) => {
  const events: string[] = [];
  const arriving: number[] = [];
  let received = 1000;
  let kept = 0;
  let refusing = false;
  return {
    events,
    run: () =>
      measureLosses({
        start: async () => {
          events.push("start");
          if (!refusing) arriving.push(Math.floor(kept / 2), Math.ceil(kept / 2));
          return { stop: async (signal = "SIGTERM") => void events.push(signal) };
        },
        send: async () => {
          kept = keeps(50);
          return 50;
        },
        sink: {
          received: async () => received,
          setRefusing: async (value) => {
            refusing = value;
            events.push(value ? "refuse" : "accept");
          },
        },
        unitsPerCounted: 1,
        sleepMs: async () => {
          received += arriving.shift() ?? 0;
        },
      }),
  };
};

it("are what was acknowledged and does not arrive after a restart", async () => {
  expect(await scenario(() => 20).run()).toEqual({ acknowledged: 50, lost: 30 });
});

it("are zero for an agent that keeps everything, and more than it acknowledged is no loss", async () => {
  expect(await scenario((units) => units).run()).toEqual({ acknowledged: 50, lost: 0 });
  expect(await scenario((units) => units + 1).run()).toEqual({ acknowledged: 50, lost: 0 });
});

it("kills while the sink refuses, and restarts once it accepts", async () => {
  const { events, run } = scenario(() => 0);
  await run();
  expect(events).toEqual(["refuse", "start", "SIGKILL", "accept", "start", "SIGKILL"]);
});
