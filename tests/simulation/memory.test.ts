/** A process simulates any number of histories: none is kept in memory. */
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { drawPlan } from "./plan.ts";
import { simulate } from "./simulate.ts";
import type { World } from "./world.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc");

it("keeps nothing of a history that has ended, wherever its queues were", async () => {
  const worlds: WeakRef<World>[] = [];
  // More than one of each kind, as one may be left below.
  const seeds = [1, 2, 43, 44];
  const plans = seeds.map((seed) => drawPlan({ seed }));
  expect(plans.some(({ hasFiles }) => hasFiles)).toBe(true);
  for (const seed of seeds)
    await simulate({ seed }, {}, ({ world }) => void worlds.push(new WeakRef(world)));
  await setImmediate();
  collectGarbage();
  // The stack may hold the last one; a leak keeps all.
  expect(worlds.filter((world) => world.deref() !== undefined).length).toBeLessThanOrEqual(1);
});
