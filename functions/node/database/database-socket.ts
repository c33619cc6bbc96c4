import { connect, type Socket } from "node:net";
import type { OpenSocket } from "../../store/database/pool/single-socket.ts";

/**
 * After 5 s without a word the system asks whether the server is still there, and closes the connection ten unanswered seconds later. It
 * does so for idle connections only: unacknowledged writes are the deadline's to notice.
 */
export const keepAliveMs = 5_000;

/**
 * Opens a connection of postgres.js with TCP_NODELAY, which it does not set: without it, a small write that follows another waits 40 ms
 * for the acknowledgement of the first. Returns the socket before it is connected: its events report a failed connect.
 */
export const openDatabaseSocket = ({ host, port, path }: Parameters<OpenSocket>[0]): Socket => {
  if (path) return connect({ path });
  const at = Math.floor(Math.random() * host.length);
  // postgres.js reads the TLS server name from the socket.
  return Object.assign(
    connect({
      host: host[at] ?? "localhost",
      port: port[at] ?? 5432,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveMs,
    }),
    {
      host: host[at],
    },
  );
};
