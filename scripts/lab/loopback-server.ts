import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Starts an HTTP server on a free port of loopback, unless another address is given. The caller handles its `request` events; `close` ends
 * every connection.
 */
export const startLoopbackServer = async ({
  port = 0,
  host = "127.0.0.1",
}: {
  port?: number;
  host?: string;
} = {}) => {
  const server = createServer();
  server.listen(port, host);
  await once(server, "listening");
  return {
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
};
