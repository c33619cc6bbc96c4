import { callDeadlineMs, poolConnections } from "#functions/store/database/call-limits.ts";
import { connectDatabase, type PoolSettings } from "#functions/store/database/database.ts";
import { type Channels, listen, type Subscription } from "#functions/store/database/listen.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { CoreServers } from "./database-servers.ts";

/** Core's pools. */
export type CoreDatabases = ReturnType<typeof openCoreDatabases>;

/** Opens core's pools; they connect with their first statement. Behind a pooler in transaction mode only `listen` keeps a session. */
export const openCoreDatabases = ({ requests: at, sessions }: CoreServers, tracer: Tracer) => {
  const pooled = sessions !== at;
  const open = (pool: keyof typeof poolConnections, options: PoolSettings) =>
    connectDatabase({ ...at, pooled, connectionsMax: poolConnections[pool], ...options });
  const pools = {
    requests: open("requests", { tracer }),
    /** Only for the statement of heartbeats, whose plan the sessions cache. */
    heartbeats: open("heartbeats", { tracer, plansByIndex: true }),
    /** Only for lookups of certificates, so that requests cannot starve them: without a recheck, open streams end. */
    certificates: open("certificates", { tracer }),
    /** So that reports cannot starve requests. */
    reports: open("reports", { tracer }),
    jobs: open("jobs", {
      deadlineMs: callDeadlineMs.jobs,
      applicationName: "svc-server jobs",
    }),
  };
  const subscriptions: Subscription[] = [];
  return {
    ...pools,
    /** Listens on channels, as `listen` does, until the pools are closed. */
    listen(channels: Channels) {
      const subscription = listen(sessions, channels);
      subscriptions.push(subscription);
      return subscription.listening;
    },
    /** The open connections, and how many the pools open at most. */
    connections: {
      count: () => at.servers.count() + (pooled ? sessions.servers.count() : 0),
      max: Object.values(poolConnections).reduce((sum, count) => sum + count, 0),
    },
    /** Waits up to `seconds` for running queries, then closes every connection. */
    close(seconds: number) {
      for (const { close } of subscriptions) close();
      return Promise.all(Object.values(pools).map(({ close }) => close(seconds)));
    },
  };
};
