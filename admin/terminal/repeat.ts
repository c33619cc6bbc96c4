import { FleetError } from "#client/problem.ts";
import { describeProblem } from "./describe-problem.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Runs `once` every `seconds` until it returns true, or until the person interrupts, which throws. After the first success, a failure that
 * passes by itself is written to stderr and does not end it: a watch outlives a restart of core.
 */
export const repeat = async (
  { clock, err, signal }: Pick<Terminal, "clock" | "err" | "signal">,
  seconds: number,
  once: () => Promise<boolean>,
): Promise<void> => {
  for (let succeeded = false; ; ) {
    try {
      if (await once()) return;
      succeeded = true;
    } catch (error) {
      const passes =
        error instanceof FleetError && error.problem.action === "retry" && !signal.aborted;
      if (!passes || !succeeded) throw error;
      err.write(describeProblem(error.problem));
    }
    await clock.sleep(seconds * 1000, signal);
  }
};
