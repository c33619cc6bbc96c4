import { chmod, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { containFailures } from "#kit/contain-failures.ts";
import type { Log } from "#kit/log.ts";
import type { CollectorStatus } from "./fetch-status.ts";

/** Returns the path of a running collector's socket. */
export const socketIn = (dataDir: string): string => join(dataDir, "status.sock");

const answerTimeoutMs = 5_000;

/** An open socket. */
export interface StatusSocket {
  close(): Promise<void>;
}

/**
 * Serves the current status, as one JSON object for each connection, on a unix socket in `dataDir` for this user alone (0600). The
 * caller has the queue's lock, so an existing socket is left over from a killed process and is removed. Logs a socket that cannot be
 * opened (the system limits the length of its path), and continues without one.
 */
export const serveStatus = async (
  dataDir: string,
  compose: () => CollectorStatus,
  log: Log,
): Promise<StatusSocket> => {
  const path = socketIn(dataDir);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
    socket.setTimeout(answerTimeoutMs, () => socket.destroy());
    // Bytes that nobody reads would keep the socket from closing.
    socket.resume();
    socket.end(JSON.stringify(compose()));
  });
  containFailures(server, (err) => log.error({ err }, "a request for the status failed"));
  try {
    await rm(path, { force: true });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
    // Until then the umask protects it: connecting needs the right to write.
    await chmod(path, 0o600);
  } catch (error) {
    log.warn(
      { err: error },
      "the status socket cannot be opened; svc-collector status cannot reach this collector",
    );
    return { close: async () => undefined };
  }
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        // A client that does not read its answer must not hold up the collector's stop.
        for (const socket of sockets) socket.destroy();
      }),
  };
};
