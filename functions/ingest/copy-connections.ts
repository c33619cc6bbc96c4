import type { Client } from "pg";
import { type Clock, callAfter } from "#kit/clock.ts";
import { destroyClient } from "../store/ingest/copy-transaction.ts";

/** The committer's connections. One is kept only after success, as a failure leaves it in an unknown state, and until the server closes it. */
export type CopyConnections = ReturnType<typeof createCopyConnections>;

const retryMs = 500;

/** Creates the connections; the first is opened by the first work. */
export const createCopyConnections = ({
  connect,
  clock,
  timeoutMs,
  check = async () => undefined,
}: {
  connect(): Promise<Client>;
  /** Rejects while what else a batch needs is unavailable. */
  check?: (() => Promise<unknown>) | undefined;
  clock: Clock;
  timeoutMs: number;
}) => {
  const idle: Client[] = [];
  const active = new Set<Client>();
  const closed = new AbortController();
  const open = async (): Promise<Client> => {
    const client = await connect();
    // After a restart of the server, each idle one would fail a batch.
    client.once("end", () => {
      const at = idle.indexOf(client);
      if (at >= 0) idle.splice(at, 1);
    });
    return client;
  };
  return {
    /**
     * Runs work on an idle or a new connection, which is closed when the work fails or exceeds the timeout; then the signal aborts, and it
     * rejects with `DEADLINE_EXCEEDED`.
     */
    async run<Result>(
      work: (client: Client, signal: AbortSignal) => Promise<Result>,
    ): Promise<Result> {
      const client = idle.pop() ?? (await open());
      active.add(client);
      const late = new AbortController();
      // The one way to end a query that the server does not answer: its promise rejects when the socket closes.
      const cancel = callAfter(clock, timeoutMs, () => {
        late.abort();
        destroyClient(client);
      });
      try {
        const result = await work(client, late.signal);
        idle.push(client);
        return result;
      } catch (cause) {
        destroyClient(client);
        if (!late.signal.aborted) throw cause;
        throw Object.assign(new Error("the server did not finish in time", { cause }), {
          code: "DEADLINE_EXCEEDED",
        });
      } finally {
        active.delete(client);
        cancel();
      }
    },
    /** Resolves once a connection has been opened, and `check` has resolved; returns false if `signal` aborts first, or `close` comes. */
    async untilAvailable(signal: AbortSignal) {
      const ended = AbortSignal.any([closed.signal, signal]);
      for (;;) {
        await clock.sleep(retryMs, ended).catch(() => undefined);
        if (ended.aborted) return false;
        const client = await connect().catch(() => undefined);
        if (client === undefined) continue;
        destroyClient(client);
        const isAvailable = await check().then(
          () => true,
          () => false,
        );
        if (isAvailable) return true;
      }
    },
    /** Closes the connections that are in use; their work rejects. */
    destroyActive() {
      for (const client of active) destroyClient(client);
    },
    /** Closes the idle connections. */
    async close() {
      closed.abort();
      await Promise.all(idle.splice(0).map((client) => client.end().catch(() => undefined)));
    },
  };
};
