import { systemClock } from "#kit/clock.ts";
import { hasFaketime } from "./clocks.ts";
import { type Fault, type Scene, seconds } from "./fault.ts";

const hourMs = 3_600_000;
const shiftsMs = [-48 * hourMs, -2 * hourMs, 2 * hourMs, 48 * hourMs];
const namedMs = 10_000;

/** Waits until `/readyz` of a core says that the clocks differ. */
const untilNamed = async ({ httpPorts }: Scene) => {
  const deadline = performance.now() + namedMs;
  while (performance.now() < deadline) {
    for (const port of httpPorts) {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`, {
        signal: AbortSignal.timeout(5_000),
      })
        .then((response) => response.text())
        .catch(() => "");
      if (/Core's clock is \d+ s (ahead of|behind) the database's/.test(answer)) return;
    }
    await systemClock.sleep(100);
  }
  throw new Error("no core named the clocks that differ");
};

const shiftFor =
  (machine: "core" | "postgres"): Fault["inject"] =>
  async (scene, draw) => {
    const clock = scene.clocks[machine];
    clock.shift(shiftsMs[Math.floor(draw * shiftsMs.length)] ?? 0);
    try {
      const named = untilNamed(scene);
      await systemClock.sleep(seconds((draw * shiftsMs.length) % 1, 3, 8));
      await named;
    } finally {
      clock.shift(0);
    }
  };

/** Clocks that are wrong by hours or days. */
export const clockFaults = {
  "set the clock of core wrong": {
    id: "K2",
    touches: ["clock"],
    recoveryMs: { max: 5_000 },
    inject: shiftFor("core"),
  },
  ...(hasFaketime && {
    "set the clock of PostgreSQL wrong": {
      id: "K1",
      touches: ["clock"],
      recoveryMs: { max: 5_000 },
      inject: shiftFor("postgres"),
    },
  }),
};
