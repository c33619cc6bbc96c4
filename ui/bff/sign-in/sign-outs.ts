import type { Web } from "../web.ts";

/**
 * Calls `record`, with which core records that sessions have ended and then rejects them at every web. Returns its result, or throws its first
 * failure and retries in the background until core confirms, `expiresAt` has passed or web stops. Meanwhile it tries a further report of the
 * same `key` once, such as a logout token that the provider repeats.
 */
export type ReportSignOut = <Result>(
  record: () => Promise<Result>,
  sessions: { key: string; requestId: string; expiresAt: number },
) => Promise<Result>;

const retryMs = 2_000;
/** The most reports that web retries at once; beyond, only the caller retries. A provider may send any number of tokens. */
const retriesMax = 10_000;

/** Creates a `ReportSignOut`. */
export const createReportSignOut = (
  { clock, log }: Pick<Web, "clock" | "log">,
  isStopping: () => boolean,
): ReportSignOut => {
  const retriedKeys = new Set<string>();
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
      retriedKeys.delete(key);
    };
    try {
      return await record();
    } catch (err) {
      warn(err);
      if (!retriedKeys.has(key) && retriedKeys.size < retriesMax) {
        retriedKeys.add(key);
        void retry();
      }
      throw err;
    }
  };
};
