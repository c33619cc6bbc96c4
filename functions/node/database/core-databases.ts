import { callDeadlineMs, poolConnections } from "#functions/store/database/call-limits.ts";
import {
  type ConnectedDatabase,
  connectDatabase,
  type DatabaseOptions,
} from "#functions/store/database/database.ts";
import { type Channels, listen, type Subscription } from "#functions/store/database/listen.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { CoreServers } from "./database-servers.ts";

/** Core's pools. */
export interface CoreDatabases {
  requests: ConnectedDatabase;
  /** Only for the statement of heartbeats, whose plan the sessions cache. */
  heartbeats: ConnectedDatabase;
  /** Only for lookups of certificates, so that requests cannot starve them: without a recheck, open streams end. */
  certificates: ConnectedDatabase;
  /** So that reports cannot starve requests. */
  reports: ConnectedDatabase;
  jobs: ConnectedDatabase;
  /** Listens on channels, as `listen` does, until the pools are closed. */
  listen(channels: Channels): Promise<void>;
  /** The open connections, and how many the pools open at most. */
  connections: { count(): number; max: number };
  /** Waits up to `seconds` for running queries, then closes every connection. */
  close(seconds: number): Promise<unknown>;
}

/** Opens core's pools; they connect with their first statement. Behind a pooler in transaction mode only `listen` keeps a session. */
export const openCoreDatabases = (
  { requests: at, sessions }: CoreServers,
  tracer: Tracer,
): CoreDatabases => {
  const pooled = sessions !== at;
  const open = (pool: keyof typeof poolConnections, options: Partial<DatabaseOptions>) =>
    connectDatabase({ ...at, pooled, connectionsMax: poolConnections[pool], ...options });
  const pools = {
    requests: open("requests", { tracer }),
    heartbeats: open("heartbeats", { tracer, plansByIndex: true }),
    certificates: open("certificates", { tracer }),
    reports: open("reports", { tracer }),
    jobs: open("jobs", {
      deadlineMs: callDeadlineMs.jobs,
      applicationName: "svc-server jobs",
    }),
  };
  const subscriptions: Subscription[] = [];
  return {
    ...pools,
    listen(channels) {
      const subscription = listen(sessions, channels);
      subscriptions.push(subscription);
      return subscription.listening;
    },
    connections: {
      count: () => at.servers.count() + (pooled ? sessions.servers.count() : 0),
      max: Object.values(poolConnections).reduce((sum, count) => sum + count, 0),
    },
    close(seconds) {
      for (const { close } of subscriptions) close();
      return Promise.all(Object.values(pools).map(({ close }) => close(seconds)));
    },
  };
};
