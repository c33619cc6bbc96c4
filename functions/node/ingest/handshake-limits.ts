/**
 * Limits the cost of clients before they have presented a certificate: unfinished TLS handshakes, and handshakes a second, of one remote address
 * (IPv6: of its /64), and concurrent handshakes of all addresses. A handshake ends by its timeout even if the client keeps sending: Node's own
 * timeout restarts with each byte.
 */
import type { Server, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { addressKey } from "#kit/address.ts";
import type { Clock } from "#kit/clock.ts";
import { createSlots } from "#kit/slots.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";

/** Limits of handshakes. */
export interface HandshakeLimits {
  /** From the connection on, the wait included. */
  timeoutMs: number;
  /** Unfinished handshakes of an address. */
  unfinishedMax: number;
  /** Handshakes that an address may start at once, and a second after that. */
  burst: number;
  perSecond: number;
  /** Handshakes of all addresses that run at once; those that take longer than `slowMs` do not count. */
  atOnceMax: number;
  slowMs: number;
  /** Connections of all addresses that wait for their handshake to begin. Core resets further ones, and their clients back off. */
  waitingMax: number;
}

/** Returns the limits of an address that may start so many handshakes a second: ten times as many at once, as in the defaults. */
export const handshakesOf = (perSecond: number): Pick<HandshakeLimits, "burst" | "perSecond"> => ({
  burst: 10 * perSecond,
  perSecond,
});

/**
 * The defaults. A site of hundreds of hosts behind one address reconnects within seconds after a restart of core. A handshake takes core 3 to
 * 5 ms: the ones at once delay other work by 0.1 s, and those that wait have their turn within 3 s.
 */
export const handshakeLimits: HandshakeLimits = {
  timeoutMs: 10_000,
  unfinishedMax: 100,
  ...handshakesOf(50),
  atOnceMax: 32,
  slowMs: 100,
  waitingMax: 512,
};

/** Enforces the limits on a TLS server, and logs refused addresses at most once a minute each. Returns what ends its connections. */
export const limitHandshakes = (
  server: Server,
  {
    limits,
    clock,
    log,
  }: {
    limits: HandshakeLimits;
    clock: Pick<Clock, "monotonic">;
    log: { warn(fields: object, message: string): void };
  },
) => {
  const { timeoutMs, unfinishedMax, burst, perSecond } = limits;
  const gate = createHandshakeGate(limits);
  const slots = createSlots(unfinishedMax);
  const starts = createTokenBuckets({ burst, perSecond, clock });
  const warnings = createTokenBuckets({ burst: 1, perSecond: 1 / 60, clock });
  const all = new Set<Socket>();
  const unfinished = new Map<string, { socket: Socket; finish(): void }>();

  const warn = ({ remoteAddress }: Socket, key: string, reason: string): void => {
    if (warnings.take(key))
      log.warn({ remote_address: remoteAddress, reason }, "connection refused");
  };
  const startTls = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const key = addressKey(socket.remoteAddress ?? "");
    const release = starts.take(key) ? slots(key) : null;
    if (release === null) {
      warn(socket, key, "too many TLS handshakes of this address");
      socket.resetAndDestroy();
      return;
    }
    // While it waits, no TLS socket receives its errors.
    socket.on("error", () => undefined);
    const leave = gate.enter(() => {
      for (const start of startTls) start.call(server, socket);
    });
    if (leave === null) {
      release();
      warn(socket, key, "too many TLS handshakes at once");
      socket.resetAndDestroy();
      return;
    }
    const id = connectionId(socket);
    const timer = setTimeout(() => {
      warn(socket, key, "the TLS handshake was not complete in time");
      socket.destroy();
    }, timeoutMs);
    const finish = () => {
      clearTimeout(timer);
      release();
      leave();
      unfinished.delete(id);
    };
    all.add(socket);
    unfinished.set(id, { socket, finish });
    socket.once("close", () => {
      all.delete(socket);
      finish();
    });
  });
  server.on("secureConnection", (socket: TLSSocket) =>
    unfinished.get(connectionId(socket))?.finish(),
  );
  return {
    /** Destroys the connections whose handshake is unfinished. */
    destroyUnfinished() {
      for (const { socket } of unfinished.values()) socket.destroy();
    },
    destroyAll() {
      for (const socket of all) socket.destroy();
    },
  };
};

/** Names a connection: a TLS socket has the addresses of the TCP socket under it, and no reference to it. */
const connectionId = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

/**
 * Creates a gate for the handshakes of all addresses together. A turn of the event loop then computes at most `atOnceMax` of them: when a
 * fleet reconnects at once, thousands in one turn would delay everything else by seconds, until calls to the database pass their deadline
 * and open streams end, whose hosts connect again too. A handshake that takes longer than `slowMs` waits for its client rather than
 * for the processor, and makes room for the next: slow clients cannot keep others out.
 */
export const createHandshakeGate = ({
  atOnceMax,
  slowMs,
  waitingMax,
}: {
  atOnceMax: number;
  slowMs: number;
  waitingMax: number;
}) => {
  interface Entry {
    start(): void;
    /** Runs while the handshake has a slot. */
    slow?: NodeJS.Timeout;
  }
  /** Earliest first. */
  const waiting = new Set<Entry>();
  let running = 0;
  const leave = (entry: Entry): void => {
    waiting.delete(entry);
    if (entry.slow === undefined) return;
    clearTimeout(entry.slow);
    delete entry.slow;
    running--;
    for (const next of waiting) {
      if (running >= atOnceMax) return;
      waiting.delete(next);
      begin(next);
    }
  };
  const begin = (entry: Entry): void => {
    running++;
    entry.slow = setTimeout(leave, slowMs, entry);
    entry.start();
  };
  return {
    /**
     * Calls `start` now, or when its turn comes. The caller calls the returned function when the handshake has ended, begun or not. Returns null
     * when too many wait: then `start` is not called.
     */
    enter(start: () => void): (() => void) | null {
      const entry: Entry = { start };
      if (running < atOnceMax) begin(entry);
      else if (waiting.size < waitingMax) waiting.add(entry);
      else return null;
      return () => leave(entry);
    },
  };
};
