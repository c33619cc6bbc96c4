import { singleFlight } from "#kit/group-calls.ts";
import { withTimeout } from "#kit/with-timeout.ts";
import type { CoreClient } from "./core-client.ts";
import type { Handler } from "./request.ts";
import { findPersonBySubject } from "./sign-in/people.ts";
import type { Web } from "./web.ts";

const checkTimeoutMs = 2000;

/** `GET /healthz`: the process is up. Checks no dependency. The form is core's. */
export const health: Handler = (c) => c.json({ status: "ready", checks: [] });

/**
 * `GET /readyz`: checks that web is not stopping, that the database answers what a sign-in reads and that core answers; 503 when one of
 * them does not within two seconds, or once web is stopping. Open, and therefore without detail, which is in the log.
 */
export const createReadiness = (
  { config, db, clock, log }: Pick<Web, "config" | "db" | "clock" | "log">,
  { core, isStopping }: { core: CoreClient; isStopping(): boolean },
): Handler => {
  const checks = {
    database: () => findPersonBySubject(db, { tenantId: config.tenantId, subject: "" }),
    // Core answers web itself with 401, which is enough.
    core: (requestId: string) =>
      core.call({ path: "/whoami", requestId }).then((response) => response.body?.cancel()),
  };
  const passes = async (name: string, check: Promise<unknown>): Promise<boolean> => {
    try {
      await withTimeout(checkTimeoutMs, clock, check);
      return true;
    } catch (err) {
      log.warn({ check: name, err }, "readiness check failed");
      return false;
    }
  };
  // Needs no credentials, so concurrent requests share one check.
  const check = singleFlight((requestId: string) =>
    Promise.all([passes("database", checks.database()), passes("core", checks.core(requestId))]),
  );
  return async (c) => {
    const found = [!isStopping(), ...(await check(c.get("requestId")))];
    const status = (ready: boolean) => (ready ? "ready" : "not_ready");
    const ready = found.every(Boolean);
    const body = {
      status: status(ready),
      checks: ["stopping", "database", "core"].map((name, at) => ({
        name,
        status: status(found[at] ?? false),
        detail: null,
      })),
    };
    return c.json(body, ready ? 200 : 503);
  };
};
