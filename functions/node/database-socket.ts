import { connect, type Socket } from "node:net";
import type { OpenSocket } from "../store/database.ts";

/**
 * Opens a connection of postgres.js with TCP_NODELAY, which it does not set: without it, a small write that follows another waits 40 ms
 * for the acknowledgement of the first. Returns the socket before it is connected, so that its events report a failed connect: a
 * rejected promise here would cost the pool a connection for good.
 */
export const openDatabaseSocket = ({ host, port, path }: Parameters<OpenSocket>[0]): Socket => {
  if (path) return connect({ path });
  const at = Math.floor(Math.random() * host.length);
  // postgres.js reads the TLS server name from the socket.
  return Object.assign(connect({ host: host[at] ?? "localhost", port: port[at] ?? 5432, noDelay: true }), {
    host: host[at],
  });
};

/** The sockets of one pool, for its metrics. */
export interface CountedSockets {
  open: OpenSocket;
  /** Returns how many are open or being opened. */
  count(): number;
}

/** Counts the sockets that `openDatabaseSocket` opens. */
export const countDatabaseSockets = (): CountedSockets => {
  let count = 0;
  return {
    open: (target) => {
      const socket = openDatabaseSocket(target);
      count += 1;
      return socket.once("close", () => (count -= 1));
    },
    count: () => count,
  };
};
