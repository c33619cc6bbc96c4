import { connectionError } from "./connection-error.ts";

/** The part of a socket that a connection uses itself. */
interface Socket {
  destroy(): unknown;
}

/** Opens the socket of one connection, connected or not; postgres.js writes to it immediately. A rejection closes the connection. */
export type OpenSocket = (target: {
  host: string[];
  port: number[];
  path: string | false;
}) => Socket | Promise<Socket>;

/** A socket for a client of postgres.js, which never gets a second one. */
interface SingleSocket {
  open: OpenSocket;
  destroy(): void;
}

/**
 * Creates the socket of a connection. postgres.js connects again by itself, with everything that it has not sent: when it requests a second
 * socket, the first has closed. Calls `onClosed` then, and when no socket can be opened.
 */
export const createSingleSocket = (
  openSocket: OpenSocket,
  onClosed: (cause: Error) => void,
): SingleSocket => {
  let isUsed = false;
  let isDestroyed = false;
  let socket: Socket | undefined;
  return {
    async open(target) {
      try {
        if (isUsed || isDestroyed) throw connectionError("CONNECTION_CLOSED");
        isUsed = true;
        socket = await openSocket(target);
        if (isDestroyed) socket.destroy();
        return socket;
      } catch (cause) {
        onClosed(cause instanceof Error ? cause : connectionError("CONNECTION_CLOSED", cause));
        throw cause;
      }
    },
    destroy() {
      isDestroyed = true;
      socket?.destroy();
    },
  };
};
