import type { Server, Socket } from "node:net";
import { containFailures } from "#kit/contain-failures.ts";
import { createInFlightRequests } from "../otlp/in-flight-requests.ts";
import type { SourceDependencies } from "../source.ts";
import { createFraming, FramingError } from "./framing.ts";
import type { Storing } from "./storing.ts";

/** Limits of the connections of one source. */
export interface ConnectionLimits {
  connectionsMax: number;
  /** A longer message is divided, or refused if its length says so. */
  messageBytesMax: number;
  /** The limit of all incomplete messages together. */
  heldBytesMax: number;
  /** A connection ends after so long without a byte. */
  idleMs: number;
  /** The same, while a message is incomplete. */
  incompleteMs: number;
}

interface Connection {
  readonly socket: Socket;
  /** When all that was read of it was stored; `Infinity` while something is not. */
  storedMs: number;
  /** It has bytes of an incomplete message. */
  isHolding: boolean;
}

/** How long senders have to end their connections when the source stops; less if nothing comes any more. */
const drainMs = 10_000;
const quietMs = 500;

/**
 * Creates the reader of a source's connections. It reads more of a connection only once everything before is stored, so that a full queue makes
 * its sender wait.
 */
export const createConnections = (
  name: string,
  limits: ConnectionLimits,
  { clock, log }: Pick<SourceDependencies, "clock" | "log">,
  storing: Storing,
) => {
  const open = new Set<Connection>();
  const held = createInFlightRequests(limits.heldBytesMax);
  const counts = { refused_connections: 0, broken_connections: 0 };
  const ended = new Set<Promise<void>>();

  const onFailure = (err: unknown) => {
    counts.broken_connections += 1;
    log.debug({ err, source: name }, "a connection of a sender failed");
  };
  /** Ends a connection whose bytes cannot be read; what it has sent of a message counts as one. */
  const refuse = (socket: Socket, error: FramingError) => {
    counts.broken_connections += 1;
    storing.refuse(error.reason, 1);
    log.warn({ err: error, source: name, sender: socket.remoteAddress }, "refused a sender");
    socket.destroy();
  };

  const follow = async (connection: Connection, transport: string) => {
    const { socket } = connection;
    const sender = {
      ...(socket.remoteAddress && { "client.address": plainAddress(socket.remoteAddress) }),
      "network.transport": transport,
    };
    const framing = createFraming(limits.messageBytesMax);
    let holding = held.begin(() => undefined);
    let refusal: FramingError | undefined;
    try {
      for await (const chunk of socket) {
        holding.end();
        connection.storedMs = Number.POSITIVE_INFINITY;
        await storing.whenRoom();
        await storing.store(framing.push(chunk), sender);
        connection.storedMs = clock.monotonic();
        connection.isHolding = framing.heldBytes() > 0;
        holding = held.begin(() => {
          refusal = new FramingError("too_large", "too many messages are incomplete");
          socket.destroy();
        });
        holding.add(framing.heldBytes());
      }
    } catch (error) {
      if (error instanceof FramingError) refusal = error;
      else if (refusal === undefined) onFailure(error);
    } finally {
      holding.end();
    }
    if (refusal === undefined) await storing.store(framing.rest(), sender);
    else refuse(socket, refusal);
  };

  return {
    /** Reads the connections of a server, which it returns. */
    read: (server: Server, event: "connection" | "secureConnection", transport: string): Server => {
      server.maxConnections = limits.connectionsMax;
      containFailures(server, onFailure);
      server.on("drop", () => {
        counts.refused_connections += 1;
      });
      server.on("tlsClientError", onFailure);
      server.on(event, (socket: Socket) => {
        const connection = { socket, storedMs: clock.monotonic(), isHolding: false };
        socket.setKeepAlive(true, limits.incompleteMs);
        open.add(connection);
        const end = follow(connection, transport)
          .catch(onFailure)
          .finally(() => {
            open.delete(connection);
            ended.delete(end);
          });
        ended.add(end);
      });
      return server;
    },
    /** Asks senders from which nothing has come for long to end their connections; ends those that have not since the call before. */
    endIdle: () => {
      const now = clock.monotonic();
      for (const { socket, storedMs, isHolding } of open) {
        if (now - storedMs < (isHolding ? limits.incompleteMs : limits.idleMs)) continue;
        if (socket.writableEnded) socket.destroy();
        else socket.end();
      }
    },
    /** Asks senders to end their connections, and reads what is on its way; calls `abort` if that takes too long. */
    drain: async (abort: () => void) => {
      const lastMs = clock.monotonic() + drainMs;
      for (const { socket } of open) socket.end();
      while (open.size > 0) {
        const done = new AbortController();
        const pause = clock.sleep(quietMs, done.signal).catch(() => undefined);
        await Promise.race([pause, Promise.all(ended)]);
        done.abort("done");
        const now = clock.monotonic();
        if (now >= lastMs) abort();
        for (const { socket, storedMs } of open)
          if (now >= lastMs || now - storedMs >= quietMs) socket.destroy();
      }
    },
    counts: () => ({ connections: open.size, ...counts }),
  };
};

/** Returns an address without the prefix that an IPv4 one has on an IPv6 socket (case E6). */
export const plainAddress = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/, "");
