import { createSecureServer, type Http2SecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { issueBenchCredentials } from "./collector-files.ts";

/** The counts of a sink. */
export interface Received {
  envelopes: number;
  bytes: number;
}

/**
 * Serves the far end of an agent over mutual TLS, as a process of its own; `handle` counts what arrives at the server. Prints one line of JSON
 * with its endpoint and a client's credentials, then for each line on stdin how many envelopes and bytes it has received. From the line
 * `refuse` to the line `accept` it closes new connections at once.
 */
export const serveSink = async (
  handle: (server: Http2SecureServer, received: Received) => void,
): Promise<void> => {
  const ca = await createTestCa();
  const received: Received = { envelopes: 0, bytes: 0 };
  const server = createSecureServer({
    ...(await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" })),
    ca: ca.pem,
    requestCert: true,
    rejectUnauthorized: true,
    settings: { initialWindowSize: 4 * 1024 * 1024 },
  });
  let refusing = false;
  server.on("session", (session) =>
    refusing ? session.destroy() : session.setLocalWindowSize(16 * 1024 * 1024),
  );
  handle(server, received);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = await issueBenchCredentials(ca, { type: "url", value: "https://fleet.test/d/1" });
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ endpoint: `127.0.0.1:${port}`, tls: { ...client, ca: ca.pem } }));
  createInterface(process.stdin).on("line", (command) => {
    if (command === "refuse") refusing = true;
    if (command === "accept") refusing = false;
    console.log(JSON.stringify(received));
  });
  process.stdin.on("end", () => process.exit());
};
