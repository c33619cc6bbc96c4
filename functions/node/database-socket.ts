import { connect, type Socket } from "node:net";
import type { OpenSocket } from "../store/database.ts";

/**
 * Opens a connection of postgres.js with TCP_NODELAY, which it does not set by itself: without, a small write after another waits
 * 40 ms for the acknowledgement of the first. The socket is returned before it is connected, so that a failed connect is reported
 * by its events: a promise that rejects here would cost the pool a connection for good.
 */
export const openDatabaseSocket: OpenSocket = ({ host, port, path }): Socket => {
  if (path) return connect({ path });
  const at = Math.floor(Math.random() * host.length);
  // postgres.js takes the TLS server name from the socket.
  return Object.assign(connect({ host: host[at] ?? "localhost", port: port[at] ?? 5432, noDelay: true }), {
    host: host[at],
  });
};
