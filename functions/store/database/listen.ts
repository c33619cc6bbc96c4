import postgres from "postgres";
import { callDeadlineMs } from "./call-limits.ts";
import { connectionSettings } from "./connection-settings.ts";
import type { SharedServers } from "./database.ts";
import { connectionError } from "./pool/connection-error.ts";
import { createSingleSocket } from "./pool/single-socket.ts";

/** Handlers of channels, called with the payload of each notification, and without one whenever a connection begins to listen. */
export type Channels = Readonly<Record<string, (payload?: string) => void>>;

/** A running subscription to channels. */
export interface Subscription {
  /** Resolves when the first connection listens. Rejects if it fails; further connections are opened all the same. */
  listening: Promise<void>;
  close(): void;
}

const retryDelayMs = 250;

/**
 * Listens on channels, on a connection of its own, which it replaces whenever it closes. Also calls each handler when a connection begins
 * to listen, because notifications may have been missed before.
 */
export const listen = (
  { servers }: { servers: SharedServers },
  channels: Channels,
): Subscription => {
  let fail: (cause: Error) => void = () => undefined;
  let isConnected = false;
  let isClosed = false;
  let retry: ReturnType<typeof setTimeout> | undefined;

  const connect = async () => {
    const failed = Promise.withResolvers<never>();
    const socket = createSingleSocket(servers.open, failed.reject);
    const { url, settings } = connectionSettings({ servers });
    // The types of postgres do not know `socket`.
    const options = { ...settings, socket: socket.open, max: 1, max_lifetime: null };
    const client = postgres(url, options);
    fail = failed.reject;
    isConnected = true;
    failed.promise.catch(() => {
      isConnected = false;
      socket.destroy();
      void client.end({ timeout: 0 });
      if (!isClosed) retry = setTimeout(() => void connect().catch(() => undefined), retryDelayMs);
    });
    const timer = setTimeout(
      () => failed.reject(connectionError("DEADLINE_EXCEEDED")),
      callDeadlineMs.api,
    );
    const listening = Promise.all(
      Object.entries(channels).map(([channel, notify]) =>
        client.listen(channel, notify, () => notify()),
      ),
    ).then(() => undefined);
    listening.catch(failed.reject);
    await Promise.race([listening, failed.promise]).finally(() => clearTimeout(timer));
  };
  const leave = servers.join({ count: () => (isConnected ? 1 : 0), drop: (cause) => fail(cause) });
  return {
    listening: connect(),
    close() {
      isClosed = true;
      leave();
      clearTimeout(retry);
      fail(connectionError("CONNECTION_ENDED"));
    },
  };
};
