/**
 * Makes a history that breaks a law smaller: fewer faults, fewer hosts and cores, an earlier end. A history that differs takes another course, so
 * each candidate is tried with several variations of what the seed draws.
 */

import { type Course, drawPlan } from "./plan.ts";
import type { Plant } from "./plant.ts";
import { type Outcome, simulate } from "./simulate.ts";

const variations = 6;
const endStepMs = 5_000;

/** Returns the smallest history that was found to break the law that `broken` breaks first. */
export const shrink = async (broken: Outcome, plant?: Plant): Promise<Outcome> => {
  const law = broken.breaches[0]?.law;
  let best = broken;

  const attempt = async (change: Partial<Course>): Promise<boolean> => {
    for (let variation = 0; variation < variations; variation++) {
      const course = { ...best.course, ...change, ...(variation > 0 ? { variation } : {}) };
      const outcome = await simulate(course, plant);
      if (!outcome.breaches.some((breach) => breach.law === law)) continue;
      best = outcome;
      return true;
    }
    return false;
  };

  const plan = drawPlan(broken.course);
  for (let hosts = 1; hosts < (best.course.hosts ?? plan.hosts); hosts++)
    if (await attempt({ hosts })) break;
  for (let cores = 1; cores < (best.course.cores ?? plan.cores); cores++)
    if (await attempt({ cores })) break;
  const left = () => best.injected.map(({ index }) => index);
  // Halves first, then one at a time.
  for (
    let size = Math.ceil(left().length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  )
    for (let at = 0; at < left().length; ) {
      const faults = left().filter((_, index) => index < at || index >= at + size);
      if (!(await attempt({ faults }))) at += size;
    }
  for (
    let untilMs = endStepMs;
    untilMs < (best.course.untilMs ?? plan.untilMs);
    untilMs += endStepMs
  )
    if (await attempt({ untilMs })) break;
  return best;
};
