import type { Web } from "../web.ts";

/**
 * Calls core to record that sessions have ended, after which it rejects them at every web. Returns what `record` does. Throws its first
 * failure, and then retries until core confirms, `expiresAt` has passed or web stops.
 */
export type ReportSignOut = <Result>(
  record: () => Promise<Result>,
  sessions: { requestId: string; expiresAt: number },
) => Promise<Result>;

const retryMs = 2_000;

/** Creates it. Nobody can sign out more often than sign in, so the retries need no limit. */
export const createReportSignOut =
  ({ clock, log }: Pick<Web, "clock" | "log">, isStopping: () => boolean): ReportSignOut =>
  async (record, { requestId, expiresAt }) => {
    const warn = (err: unknown) =>
      log.warn({ request_id: requestId, err }, "core has not confirmed a sign-out; retrying");
    const isConfirmed = () =>
      record().then(
        () => true,
        (err: unknown) => {
          warn(err);
          return false;
        },
      );
    const retry = async () => {
      do await clock.sleep(retryMs);
      while (!isStopping() && clock.now() < expiresAt * 1000 && !(await isConfirmed()));
    };
    try {
      return await record();
    } catch (err) {
      warn(err);
      void retry();
      throw err;
    }
  };
