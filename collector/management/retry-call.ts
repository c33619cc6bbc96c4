import type { Clock } from "../../kit/clock.ts";
import { ManagementError } from "./management-error.ts";

const attemptsMax = 3;
const waitSecondsMax = 10;

/**
 * Makes a call that is safe to repeat, up to three times while core says `retry` or does not answer, waiting what `Retry-After`
 * says (else 1 and 2 s). A longer `Retry-After` than 10 s is left to the caller: the failure is thrown at once. `onRepeat` is told
 * why, before each wait.
 */
export const retryCall = async <Result>(
  clock: Clock,
  call: () => Promise<Result>,
  onRepeat: (failure: ManagementError["failure"], waitSeconds: number) => void = () => undefined,
): Promise<Result> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ManagementError) || error.failure.action !== "retry" || attempt === attemptsMax)
        throw error;
      const waitSeconds = error.failure.retryAfterSeconds ?? attempt;
      if (waitSeconds > waitSecondsMax) throw error;
      onRepeat(error.failure, waitSeconds);
      await clock.sleep(waitSeconds * 1000);
    }
  }
};
