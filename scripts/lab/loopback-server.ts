import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** An HTTP server on loopback whose `request` events the caller handles. */
export interface LoopbackServer {
  server: Server;
  /** `http://127.0.0.1:<port>`. */
  url: string;
  /** Closes every connection. */
  close(): Promise<void>;
}

/** Starts one on a free port. */
export const startLoopbackServer = async (): Promise<LoopbackServer> => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
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
