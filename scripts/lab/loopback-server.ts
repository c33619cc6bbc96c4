import { once } from "node:events";
import { createServer } from "node:http";
import { listenOnLoopback } from "../ports.ts";

/**
 * Starts an HTTP server on a free port of loopback, unless another address is given. The caller handles its `request` events; `close` ends
 * every connection.
 */
export const startLoopbackServer = async (at: { port?: number; host?: string } = {}) => {
  const server = createServer();
  const port = await listenOnLoopback(server, at.port, at.host);
  return {
    server,
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
};
