import { createSecureServer, type Http2SecureServer } from "node:http2";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { type BenchCredentials, issueBenchCredentials } from "./collector-files.ts";

/** The counts of a sink. */
export interface Received {
  envelopes: number;
  bytes: number;
}

/** Where an agent forwards to, and its credentials. */
export interface SinkAddress {
  endpoint: string;
  tls: BenchCredentials & { ca: string };
}

/** A server over mutual TLS that can be down. */
export interface SinkServer extends SinkAddress {
  server: Http2SecureServer;
  /** Closes all connections, and each new one at once, or no longer. */
  setRefusing(refusing: boolean): void;
}

/** Opens the far end of an agent on a free port of loopback. */
export const openSinkServer = async (): Promise<SinkServer> => {
  const ca = await createTestCa();
  const server = createSecureServer({
    ...(await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" })),
    ca: ca.pem,
    requestCert: true,
    rejectUnauthorized: true,
    allowHTTP1: true,
    settings: { initialWindowSize: 4 * 1024 * 1024 },
  });
  let refusing = false;
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    if (refusing) socket.destroy();
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("session", (session) => session.setLocalWindowSize(16 * 1024 * 1024));
  const port = await listenOnLoopback(server);
  const client = await issueBenchCredentials(ca, { type: "url", value: "https://fleet.test/d/1" });
  return {
    server,
    endpoint: `127.0.0.1:${port}`,
    tls: { ...client, ca: ca.pem },
    setRefusing: (value) => {
      refusing = value;
      if (refusing) for (const socket of sockets) socket.destroy();
    },
  };
};

/**
 * Serves the far end of an agent as a process of its own; `handle` counts what arrives at the server. Prints one line of JSON with its
 * endpoint and a client's credentials, then for each line on stdin how many envelopes and bytes it has received. From the line `refuse` to
 * the line `accept` it is down.
 */
export const serveSink = async (
  handle: (server: Http2SecureServer, received: Received) => void,
): Promise<void> => {
  const { server, setRefusing, ...address } = await openSinkServer();
  const received: Received = { envelopes: 0, bytes: 0 };
  handle(server, received);
  console.log(JSON.stringify(address));
  createInterface(process.stdin).on("line", (command) => {
    if (command !== "?") setRefusing(command === "refuse");
    console.log(JSON.stringify(received));
  });
  process.stdin.on("end", () => process.exit());
};
