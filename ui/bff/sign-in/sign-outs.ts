import type { Web } from "../web.ts";

/**
 * Calls core to record that sessions have ended, after which it rejects them at every web. Returns what `record` does. Throws its first
 * failure, and then retries until core confirms, `expiresAt` has passed or web stops. While it retries for a `key`, a further report of that
 * is tried once: so are those of a logout token that the provider repeats.
 */
export type ReportSignOut = <Result>(
  record: () => Promise<Result>,
  sessions: { key: string; requestId: string; expiresAt: number },
) => Promise<Result>;

const retryMs = 2_000;
/** Beyond it the caller alone retries: nobody can sign out more often than sign in, but a provider may send tokens for nobody. */
const retriesMax = 10_000;

/** Creates it. */
export const createReportSignOut = (
  { clock, log }: Pick<Web, "clock" | "log">,
  isStopping: () => boolean,
): ReportSignOut => {
  const retried = new Set<string>();
  return async (record, { key, requestId, expiresAt }) => {
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
      retried.delete(key);
    };
    try {
      return await record();
    } catch (err) {
      warn(err);
      if (!retried.has(key) && retried.size < retriesMax) {
        retried.add(key);
        void retry();
      }
      throw err;
    }
  };
};
