/** Attacks on the sockets of agents, and on their polls. */
import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { constants, deflateRawSync } from "node:zlib";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { WebSocket } from "ws";
import { systemEntropy } from "#kit/entropy.ts";
import { AgentToServerSchema, ServerToAgentSchema } from "#proto/gen/opamp/v1/opamp_pb.js";

/** A certificate and its key, in PEM. */
interface Pair {
  cert: string;
  key: string;
}

/** The context of an attack, which runs until the signal aborts. */
export interface AgentTarget {
  port: number;
  caPem: string;
  /** Certificates of enrolled agents. */
  agents: readonly Pair[];
  revoked: Pair;
  signal: AbortSignal;
}

/** The result of an attack. */
interface AgentAttackResult {
  /** The sockets and requests that it opened. */
  opened: number;
  /** How often core ended a socket or a request, or answered a message, with each error. */
  errors: Record<string, number>;
}

/** The context of an attack with what it counts. */
interface CountedTarget extends AgentTarget {
  result: AgentAttackResult;
  count(error: string): void;
}

/** An attack, and the error by which core names its fault; undefined for one that core bounds without an error. */
interface AgentAttack {
  run(target: CountedTarget): Promise<void>;
  error: RegExp | undefined;
}

const socketsOfAgent = 4;
/** The code of a socket that ended without a close frame. */
const noCloseFrame = 1006;
/** Attackers have an address of their own: handshakes are limited by address. */
const localAddress = "127.0.0.2";

type Message = Omit<MessageInitShape<typeof AgentToServerSchema>, "$typeName">;
const encode = (message: Message) =>
  Buffer.concat([
    Buffer.of(0),
    toBinary(AgentToServerSchema, create(AgentToServerSchema, message)),
  ]);

const codeOf = async (response: IncomingMessage) =>
  `${response.statusCode} ${/"code":"(\w+)"/.exec(await text(response))?.[1]}`;

/** Opens a socket; resolves with it, and with a promise of its end, once it is open or refused. */
const open = async ({ port, caPem, count }: CountedTarget, pair: Pair | undefined) => {
  // Its types lack `servername`, which it passes to TLS.
  const options = { ...pair, ca: caPem, servername: "localhost", localAddress };
  const socket = new WebSocket(`wss://127.0.0.1:${port}/v1/opamp`, options);
  const settled = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  socket.on("open", settled.resolve);
  socket.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code?.startsWith("WS_") === false) count(error.code);
    settled.resolve();
  });
  socket.on("unexpected-response", async (request: ClientRequest, response: IncomingMessage) => {
    count(await codeOf(response).catch(() => "no response"));
    request.destroy();
    settled.resolve();
  });
  socket.on("message", (data: Buffer) => {
    const { errorResponse } = fromBinary(ServerToAgentSchema, Uint8Array.from(data.subarray(1)));
    if (errorResponse) count(errorResponse.errorMessage.split(":", 1)[0] ?? "");
  });
  socket.on("close", (code, reason) => {
    if (code !== noCloseFrame) count(`${code} ${reason}`);
    closed.resolve();
  });
  await settled.promise;
  return { socket, closed: closed.promise };
};

/** Keeps sockets of each agent open, and does the same on each as soon as it is open. */
const onSockets = async (
  target: CountedTarget,
  act: (socket: WebSocket, isOver: () => boolean) => Promise<void>,
  { pairs = target.agents as readonly (Pair | undefined)[], each = socketsOfAgent } = {},
) => {
  const { result } = target;
  const over = once(target.signal, "abort");
  const keepOne = async (pair: Pair | undefined) => {
    do {
      result.opened += 1;
      const { socket, closed } = await open(target, pair);
      const isOver = () => socket.readyState !== WebSocket.OPEN || target.signal.aborted;
      const wasOpened = socket.readyState === WebSocket.OPEN;
      if (!isOver()) await act(socket, isOver);
      if (wasOpened && !target.signal.aborted) await Promise.race([closed, over]);
      socket.terminate();
      await sleep(20);
    } while (!target.signal.aborted);
  };
  const sockets = pairs.flatMap((pair) => Array.from({ length: each }, () => pair));
  await Promise.all(sockets.map(keepOne));
};

/** Sends what `next` returns, a burst in each turn of the event loop, as fast as core takes it. */
const sendOn =
  (next: () => (socket: WebSocket) => void, burst = 100) =>
  async (socket: WebSocket, isOver: () => boolean) => {
    const send = next();
    while (!isOver()) {
      for (let sent = 0; sent < burst && !isOver(); sent++) send(socket);
      do await sleep(1);
      while (!isOver() && socket.bufferedAmount > 64 * 1024);
    }
  };

/** Sends messages of one agent without end; `parts` of the nth. */
const messages = (parts: (n: number) => Message) =>
  sendOn(() => {
    const instanceUid = systemEntropy.bytes(16);
    let n = 0;
    return (socket) => {
      n += 1;
      socket.send(encode({ instanceUid, sequenceNum: BigInt(n), capabilities: 3n, ...parts(n) }));
    };
  });

/** As many masked, empty frames that continue a message as a TLS record holds; the client itself would send each in a record of its own. */
const emptyFragments = Buffer.alloc(6 * 2_700, Buffer.of(0, 0x80, 0, 0, 0, 0));
const streamOf = (socket: WebSocket) => (socket as unknown as { _socket: Socket })._socket;

/** Two bytes for each of as many empty attributes as a message may have bytes. */
const emptyAttributes = () => {
  const head = Buffer.concat([Buffer.of(0, 0x0a, 16), systemEntropy.bytes(16)]);
  const length = Buffer.of(0x1a, 0x80, 0x80, 0x1f);
  return Buffer.concat([head, length, Buffer.alloc(0x1f << 14, Buffer.of(0x0a, 0))]);
};

/** Deflate of zeros in parts of 64 MiB, of which each takes 64 KB: 448 MiB within the limit of a body. */
const zeros = () => {
  const part = deflateRawSync(Buffer.alloc(64 << 20), { finishFlush: constants.Z_FULL_FLUSH });
  const header = Buffer.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3);
  return Buffer.concat([header, ...Array.from({ length: 7 }, () => part)]);
};

const postZeros = async (target: CountedTarget) => {
  const { result, count } = target;
  const body = zeros();
  const post = async ({ cert, key }: Pair) => {
    do {
      result.opened += 1;
      const request = httpsRequest({
        method: "POST",
        host: "127.0.0.1",
        port: target.port,
        path: "/v1/opamp",
        servername: "localhost",
        ca: target.caPem,
        cert,
        key,
        localAddress,
        headers: { "content-type": "application/x-protobuf", "content-encoding": "gzip" },
      });
      request.on("error", () => undefined).end(body);
      const [response] = await once(request, "response").catch((error) => [error]);
      count("statusCode" in response ? await codeOf(response) : `${response.code}`);
      await sleep(20);
    } while (!target.signal.aborted);
  };
  await Promise.all(target.agents.map(post));
};

/** Opens 10,000 sockets of one address, of which a few finish the handshake, and holds those that core accepts. */
const manySockets = async (target: CountedTarget) => {
  const { result, count } = target;
  const close: (() => void)[] = [];
  for (; result.opened < 10_000 && !target.signal.aborted; result.opened++) {
    if (result.opened % 20 === 0) {
      const agent = target.agents[close.length % target.agents.length];
      void open(target, agent).then(({ socket }) => close.push(() => socket.terminate()));
    } else {
      const socket = connect({ port: target.port, host: "127.0.0.1", localAddress });
      socket.on("error", (error: NodeJS.ErrnoException) => count(error.code ?? ""));
      close.push(() => socket.destroy());
    }
    if (result.opened % 50 === 0) await sleep(1);
  }
  if (!target.signal.aborted) await once(target.signal, "abort");
  for (const each of close) each();
};

const random = () => systemEntropy.bytes(32);
const healthOf = (n: number) => ({ healthy: n % 2 === 0, lastError: `error ${n}` });

/** The attacks by agents, by name. */
export const agentAttacks: Readonly<Record<string, AgentAttack>> = {
  // Beyond the handshakes of an address core resets, and logs why.
  "10,000 sockets": { run: manySockets, error: /^(ECONNRESET|429 too_many_connections)$/ },
  "unread pongs and answers": {
    run(target) {
      const flood = messages(() => ({}));
      return onSockets(target, async (socket, isOver) => {
        socket.pause();
        await flood(socket, isOver);
      });
    },
    error: undefined,
  },
  heartbeats: {
    run: (target) =>
      onSockets(
        target,
        messages(() => ({})),
      ),
    error: /^rate_limited$/,
  },
  "empty fragments": {
    run: (target) =>
      onSockets(
        target,
        sendOn(() => {
          let isFirst = true;
          return (socket) => {
            if (isFirst) socket.send(Buffer.alloc(0), { fin: false });
            else streamOf(socket).write(emptyFragments);
            isFirst = false;
          };
        }, 1),
      ),
    error: /^1008 payload_too_large$/,
  },
  "unfinished messages": {
    run: (target) =>
      onSockets(target, async (socket) => {
        for (let sent = 0; sent < 60; sent++) socket.send(Buffer.alloc(8_000), { fin: false });
      }),
    error: undefined,
  },
  pings: {
    run: (target) =>
      onSockets(
        target,
        sendOn(() => (socket) => socket.ping(Buffer.alloc(125))),
      ),
    error: /^1013 rate_limited$/,
  },
  "text frames": {
    run: (target) =>
      onSockets(
        target,
        sendOn(() => (socket) => socket.send("text")),
      ),
    error: /^1003 agent_message_invalid$/,
  },
  "upgrades without a certificate": {
    run: (target) => onSockets(target, async () => undefined, { pairs: [undefined], each: 32 }),
    error: /^401 client_certificate_required$/,
  },
  "upgrades of a revoked host": {
    run: (target) =>
      onSockets(target, async () => undefined, { pairs: [target.revoked], each: 32 }),
    error: /^401 identity_revoked$/,
  },
  "448 MiB after gzip": { run: postZeros, error: /^413 payload_too_large$/ },
  "empty repeated fields": {
    run(target) {
      const message = emptyAttributes();
      return onSockets(
        target,
        sendOn(() => (socket) => socket.send(message), 1),
      );
    },
    error: /^agent_message_invalid$/,
  },
  "gaps and statuses": {
    run: (target) =>
      onSockets(
        target,
        messages((n) => ({ sequenceNum: BigInt(2 * n), health: healthOf(n) })),
      ),
    error: /rate_limited$/,
  },
  "hashes that never settle": {
    run: (target) =>
      onSockets(
        target,
        messages(() => ({ remoteConfigStatus: { lastRemoteConfigHash: random(), status: 1 } })),
      ),
    error: /rate_limited$/,
  },
};

/** The longest time that an attack goes on after its end, until core has named the expected error. */
const unnamedMsMax = 20_000;

/** Runs an attack, at least until core has named its error, however late the thread gets the CPU. Returns undefined for an unknown one. */
export const runAgentAttack = async (
  name: string,
  { signal, ...target }: AgentTarget,
): Promise<AgentAttackResult | undefined> => {
  const attack = agentAttacks[name];
  if (attack === undefined) return undefined;
  const { error } = attack;
  const result: AgentAttackResult = { opened: 0, errors: {} };
  const over = new AbortController();
  const timer = setInterval(() => {
    const isNamed =
      error === undefined || Object.keys(result.errors).some((each) => error.test(each));
    if (signal.aborted && isNamed) over.abort();
  }, 20);
  signal.addEventListener("abort", () => setTimeout(() => over.abort(), unnamedMsMax).unref());
  const count = (each: string) => {
    result.errors[each] = (result.errors[each] ?? 0) + 1;
  };
  await attack.run({ ...target, signal: over.signal, result, count });
  clearInterval(timer);
  return result;
};
