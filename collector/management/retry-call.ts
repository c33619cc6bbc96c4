import type { Clock } from "#kit/clock.ts";
import { ManagementError } from "./management-error.ts";

const attemptsMax = 3;
const waitSecondsMax = 10;

/**
 * Makes a call that is safe to repeat, up to three times while core answers `retry` or not at all. Waits for `Retry-After`, else 1
 * and 2 s; throws at once if `Retry-After` is longer than 10 s. Calls `onRetry` before each wait.
 */
export const retryCall = async <Result>(
  clock: Clock,
  call: () => Promise<Result>,
  onRetry: (failure: ManagementError["failure"], waitSeconds: number) => void = () => undefined,
): Promise<Result> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (
        !(error instanceof ManagementError) ||
        error.failure.action !== "retry" ||
        attempt === attemptsMax
      )
        throw error;
      const waitSeconds = error.failure.retryAfterSeconds ?? attempt;
      if (waitSeconds > waitSecondsMax) throw error;
      onRetry(error.failure, waitSeconds);
      await clock.sleep(waitSeconds * 1000);
    }
  }
};
