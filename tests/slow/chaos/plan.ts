import type { Entropy } from "#kit/entropy.ts";
import { fraction } from "#kit/entropy.ts";
import { areApart } from "./fault.ts";
import { faultOf } from "./goals.ts";

/** A fault to inject, with the draw in [0, 1) that it takes, so long after the last one. */
export interface PlannedFault {
  fault: string;
  draw: number;
  afterMs: number;
}

/** Faults to inject: one, and perhaps a second one while it lasts, whose `afterMs` begins with the first. */
export type Step = readonly [PlannedFault, PlannedFault?];

/**
 * Returns rounds of steps, without an end; each depends on the seed and the names alone, and has each fault once. With `isPaired` about two
 * thirds of the faults are injected two at once.
 */
export function* planRounds(
  names: readonly string[],
  random: Entropy,
  isPaired: boolean,
): Generator<Step[]> {
  const draw = () => Math.round(fraction(random) * 1e6) / 1e6;
  for (;;) {
    const steps: Step[] = [];
    const left = [...names];
    const take = (from: readonly string[], afterMs: number) => {
      const fault = from[Math.floor(draw() * from.length)] ?? "";
      left.splice(left.indexOf(fault), 1);
      return { fault, draw: draw(), afterMs: Math.round(afterMs) };
    };
    while (left.length > 0) {
      const first = take(left, 500 + 1_500 * draw());
      const others = left.filter((name) => areApart(faultOf(first.fault), faultOf(name)));
      const hasSecond = isPaired && draw() < 0.5 && others.length > 0;
      steps.push(hasSecond ? [first, take(others, 1_500 * draw())] : [first]);
    }
    yield steps;
  }
}
