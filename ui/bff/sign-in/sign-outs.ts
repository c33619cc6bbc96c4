import type { CoreClient } from "../core-client.ts";
import type { WebSession } from "../session.ts";
import type { Web } from "../web.ts";

/**
 * Reports to core that a session has ended, after which core rejects it at every web. Resolves when core has confirmed that, or after the
 * first failure: then it retries until core confirms, the session expires or web stops.
 */
export type ReportSignOut = (
  session: WebSession,
  origin: { remoteAddress: string; requestId: string },
) => Promise<void>;

const retryMs = 2_000;

/** Creates it. Nobody can sign out more often than sign in, so the retries need no limit. */
export const createReportSignOut =
  ({ clock, log }: Pick<Web, "clock" | "log">, core: CoreClient, isStopping: () => boolean): ReportSignOut =>
  async (session, origin) => {
    const report = (): Promise<boolean> =>
      core.recordSignOut(session, origin).then(
        () => true,
        (err: unknown) => {
          log.warn({ request_id: origin.requestId, err }, "core has not confirmed a sign-out; retrying");
          return false;
        },
      );
    const retry = async () => {
      do await clock.sleep(retryMs);
      while (!isStopping() && clock.now() < session.expiresAt * 1000 && !(await report()));
    };
    if (!(await report())) void retry();
  };
