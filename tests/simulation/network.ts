/**
 * Connections between hosts and cores: gRPC's bytes in both directions, without TLS and HTTP/2. Bytes arrive in their order, after a delay;
 * a cut loses what is on its way, at any byte; a silent peer is noticed by the ping alone. While a path loses a direction, its bytes are sent
 * again until it does not, as TCP does: also those of a connection that one side has given up.
 */
import type { GrpcCall, GrpcConnection } from "#collector/forward/grpc-stream.ts";
import { unpooled } from "#kit/buffer-pool.ts";
import { createGrpcMessageReader, frameGrpcMessages } from "#proto/grpc-framing.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import type { Process, World } from "./world.ts";

/** A call that has arrived at a core. */
export interface ArrivedCall {
  hostId: string;
  body: AsyncIterable<Uint8Array<ArrayBuffer>>;
  /** Aborts when the connection is lost. */
  signal: AbortSignal;
}

/** The listener of a core. Yields bytes; throws the status of the call. */
export type Listener = (call: ArrivedCall) => AsyncIterable<Uint8Array>;

/** How connections of a host behave from now on. */
export interface Link {
  /** Milliseconds that bytes travel: at least, and at most. */
  delayMs: readonly [number, number];
  /** The directions in which nothing arrives, and nobody is told: of one alone, the connection is half-open. */
  lost: ReadonlySet<Direction>;
}

/** From a host to a core, or back. */
export type Direction = "up" | "down";

/** A link that loses nothing. */
export const wholeLink: Link = { delayMs: [1, 40], lost: new Set() };

/** The network of a world. */
export interface Network {
  /** Opens a connection of a host to whatever core `listenerOf` finds when it is used. */
  connect(
    from: { hostId: string; process: Process; link: Link },
    listenerOf: () => Target | undefined,
  ): GrpcConnection;
  /** Sends what connections have carried to a core once more, as a proxy does that takes a call for lost. Nobody waits for the answers. */
  repeat(isOf: (of: { hostId: string; core: Process }) => boolean, target: Target): void;
  /** Cuts the connections for which `isOf` is true. */
  cut(isOf: (of: { hostId: string; core: Process }) => boolean): void;
}

/** A core that listens. */
export interface Target {
  process: Process;
  listener: Listener;
}

interface Open {
  of: { hostId: string; core: Process };
  /** The bytes that have arrived at the core. */
  carried: Uint8Array<ArrayBuffer>[];
  cut(): void;
}

/** Ping and its answer: the time after which a silent peer counts as gone, as in collector/forward/forwarder.ts. */
const silenceMs = 40_000;
const segmentBytesMax = 1400;
/** When bytes that were lost are sent again. */
const resendMs = 1_000;

/** Creates the network of a world. */
export const createNetwork = (world: World): Network => {
  const open = new Set<Open>();

  const connect: Network["connect"] = ({ hostId, process, link }, listenerOf) => {
    let closing = (): void => undefined;

    const run = ({ requests, onResponse, signal }: GrpcCall): Promise<void> =>
      new Promise((resolve, reject) => {
        const ended = new AbortController();
        const end = (settle: () => void): void => {
          if (ended.signal.aborted) return;
          // With a reason: without one, each call would build an error and its stack trace.
          ended.abort("ended");
          settle();
        };
        const fail = (message: string) =>
          end(() => {
            world.note(`a connection of ${hostId} fails: ${message}`);
            reject(new GrpcError("unavailable", message));
          });
        signal.addEventListener("abort", () => end(() => reject(signal.reason)), { once: true });
        closing = () => fail("the connection was closed");
        if (signal.aborted) return end(() => reject(signal.reason));
        const travel = () => world.chance.integer(...link.delayMs);

        const begin = () => {
          if (ended.signal.aborted) return;
          const target = listenerOf();
          if (link.lost.size > 0)
            return void world.after(silenceMs, () => fail("the server does not answer"));
          if (target === undefined) return fail("connection refused");
          exchange(target);
        };

        const exchange = (target: Target) => {
          world.note(`${process.name} connects to ${target.process.name}`);
          const lost = new AbortController();
          const body = createByteQueue();
          let upAt = world.now();
          let downAt = world.now();
          const isSevered = () => lost.signal.aborted;
          const connection: Open = {
            of: { hostId, core: target.process },
            carried: [],
            cut: () => {
              if (isSevered()) return;
              lost.abort(new Error("the connection was cut"));
              open.delete(connection);
              world.as(process, () =>
                world.after(travel(), () => fail("the connection was reset")),
              );
              world.as(target.process, () => world.after(travel(), severServer));
            },
          };
          const server = new AbortController();
          const severServer = () => {
            server.abort(new Error("the connection was lost"));
            body.fail(new Error("the connection was lost"));
          };
          open.add(connection);
          ended.signal.addEventListener("abort", () => {
            open.delete(connection);
            deliver("up", severServer);
          });

          const held: Record<Direction, (() => void)[]> = { up: [], down: [] };
          const receiver = (side: Direction) => (side === "up" ? target.process : process);
          const flush = (side: Direction): void => {
            if (isSevered() || held[side].length === 0) return;
            if (link.lost.has(side)) {
              world.as(receiver(side), () => world.after(resendMs, () => flush(side)));
              return;
            }
            for (const act of held[side].splice(0)) act();
          };
          /** Delivers bytes in order, unless the connection is lost meanwhile. */
          const deliver = (side: Direction, act: () => void): void => {
            const at = Math.max(side === "up" ? upAt : downAt, world.now() + travel());
            if (side === "up") upAt = at;
            else downAt = at;
            world.as(receiver(side), () =>
              world.after(at - world.now(), () => {
                held[side].push(act);
                if (held[side].length === 1 || !link.lost.has(side)) flush(side);
              }),
            );
          };
          const send = async () => {
            for await (const message of requests) {
              if (ended.signal.aborted) return;
              const bytes = frameGrpcMessages([
                message instanceof Uint8Array ? message : Buffer.concat(message),
              ]);
              for (let at = 0; at < bytes.length; ) {
                const length = Math.min(
                  bytes.length - at,
                  world.chance.integer(1, segmentBytesMax),
                );
                const segment = bytes.slice(at, at + length);
                at += length;
                deliver("up", () => {
                  connection.carried.push(segment);
                  body.push(segment);
                });
              }
              await world.pause(1);
            }
          };
          send().catch((error: unknown) => end(() => reject(error)));

          const reader = createGrpcMessageReader(
            2 ** 24,
            unpooled,
            () => new GrpcError("internal", "too large"),
          );
          const receive = (bytes: Uint8Array) => {
            if (ended.signal.aborted) return;
            try {
              for (const { data } of reader.push(Uint8Array.from(bytes))) onResponse(data);
            } catch (error) {
              end(() => reject(error));
            }
          };
          const answer = async () => {
            try {
              for await (const bytes of target.listener({
                hostId,
                body: body.read(),
                signal: server.signal,
              }))
                deliver("down", () => receive(bytes));
              deliver("down", () => end(resolve));
            } catch (error) {
              deliver("down", () => end(() => reject(error)));
            }
          };
          world.as(target.process, () => void answer());
          const watch = () => {
            if (ended.signal.aborted) return;
            if (link.lost.size > 0 || !target.process.isAlive)
              return fail("the server does not answer");
            world.after(silenceMs, watch);
          };
          world.after(silenceMs, watch);
        };
        world.after(travel(), begin);
      });

    return { run, session: () => undefined, abort: () => closing() };
  };

  const repeat: Network["repeat"] = (isOf, target) => {
    for (const { of, carried } of [...open].filter((connection) => isOf(connection.of))) {
      const body = createByteQueue();
      // At once, as what waited: an Open and the frames behind it arrive together.
      body.push(Uint8Array.from(Buffer.concat(carried)));
      const lost = new AbortController();
      const drain = async (): Promise<void> => {
        for await (const _ of target.listener({
          hostId: of.hostId,
          body: body.read(),
          signal: lost.signal,
        }));
      };
      world.as(target.process, () => {
        drain().catch(() => undefined);
        world.after(resendMs, () => {
          lost.abort(new Error("the connection was lost"));
          body.fail(new Error("the connection was lost"));
        });
      });
    }
  };

  return {
    connect,
    repeat,
    cut: (isOf) => {
      for (const connection of [...open]) if (isOf(connection.of)) connection.cut();
    },
  };
};

/** Bytes that arrive for one reader. */
const createByteQueue = () => {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let failure: Error | undefined;
  let wake = (): void => undefined;
  return {
    push: (chunk: Uint8Array<ArrayBuffer>) => {
      chunks.push(chunk);
      wake();
    },
    fail: (error: Error) => {
      failure ??= error;
      wake();
    },
    async *read(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
      for (;;) {
        const chunk = chunks.shift();
        if (chunk !== undefined) yield chunk;
        else if (failure !== undefined) throw failure;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
};
