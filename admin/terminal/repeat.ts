import { FleetError } from "#client/problem.ts";
import { describeProblem } from "./describe-problem.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Runs `once` every `seconds` until it returns true, or until the person interrupts, which throws. After the first success, which `once` may
 * report before it returns, writes a retryable failure to stderr and continues, so that a watch survives a restart of core.
 */
export const repeat = async (
  { clock, err, signal }: Pick<Terminal, "clock" | "err" | "signal">,
  seconds: number,
  once: (succeed: () => void) => Promise<boolean>,
): Promise<void> => {
  let succeeded = false;
  const succeed = () => {
    succeeded = true;
  };
  for (;;) {
    try {
      if (await once(succeed)) return;
      succeed();
    } catch (error) {
      const canRetry =
        error instanceof FleetError && error.problem.action === "retry" && !signal.aborted;
      if (!canRetry || !succeeded) throw error;
      err.write(describeProblem(error.problem));
    }
    await clock.sleep(seconds * 1000, signal);
  }
};
