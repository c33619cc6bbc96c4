import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** The HTTP listener that is attacked. */
export type AttackedProgram = "core" | "web";

/** The context of an attack over plain HTTP, which runs until the signal aborts. */
export interface HttpTarget {
  port: number;
  at: AttackedProgram;
  signal: AbortSignal;
}

/** The attacks come from an address of their own. */
const localAddress = "127.0.0.2";
const form = "application/x-www-form-urlencoded";
const mebibyte = 1024 * 1024;

/** Where each program reads a form of somebody who has shown no credentials. */
const formPaths = {
  core: "/v1/operator/token-exchange",
  web: "/oauth/token",
};

const head = (path: string, headers: Readonly<Record<string, string | number>>, method = "POST") =>
  [
    `${method} ${path} HTTP/1.1`,
    "Host: 127.0.0.1",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "\r\n",
  ].join("\r\n");

const open = ({ port }: HttpTarget) =>
  connect({ port, host: "127.0.0.1", localAddress })
    .setMaxListeners(0)
    .on("error", () => undefined);

/** Resolves when a connection has ended, or with the attack. */
const ended = async (socket: Socket, { signal }: HttpTarget) => {
  if (!socket.closed) await once(socket, "close", { signal }).catch(() => undefined);
};

/** Sends requests in turn, `atOnce` at the same time, each on a connection of its own. */
const repeat = async (
  target: HttpTarget,
  atOnce: number,
  write: (socket: Socket) => Promise<void>,
) => {
  let opened = 0;
  const one = async () => {
    while (!target.signal.aborted) {
      const socket = open(target);
      opened++;
      // An answer ends the request: nothing else of it is of use to the attacker.
      socket.on("data", () => socket.destroy());
      await write(socket);
      await ended(socket, target);
      socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return opened;
};

/**
 * Keeps `connections` open with the same bytes on each, and opens a new one for each that the program closes, `perSecond` at most: what
 * costs time instead of memory would measure the attacker's bandwidth.
 */
const hold = async (
  target: HttpTarget,
  connections: number,
  bytes: Buffer,
  perSecond = Number.POSITIVE_INFINITY,
) => {
  const startedAt = Date.now();
  const sockets = new Set<Socket>();
  let opened = 0;
  while (!target.signal.aborted) {
    const allowed = connections + ((Date.now() - startedAt) / 1_000) * perSecond;
    for (
      let burst = 0;
      burst < 100 && sockets.size < connections && opened < allowed;
      burst++, opened++
    ) {
      const socket = open(target);
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      socket.write(bytes);
    }
    await sleep(20);
  }
  for (const socket of sockets) socket.destroy();
  return opened;
};

const forms = (target: HttpTarget, bytes: number) => {
  const headers = { "Content-Type": form, "Content-Length": bytes };
  const request = Buffer.concat([
    Buffer.from(head(formPaths[target.at], headers)),
    Buffer.alloc(bytes, "a&"),
  ]);
  return repeat(target, 5, async (socket) => void socket.write(request));
};

/** A body that grows for as long as the program takes it, up to 400 MB. */
const largeBodies = (target: HttpTarget, isChunked: boolean) => {
  const bytes = 400_000_000;
  const part = Buffer.alloc(mebibyte, "a");
  const chunk = Buffer.concat([
    Buffer.from(`${mebibyte.toString(16)}\r\n`),
    part,
    Buffer.from("\r\n"),
  ]);
  const length = isChunked ? { "Transfer-Encoding": "chunked" } : { "Content-Length": bytes };
  return repeat(target, 2, async (socket) => {
    socket.removeAllListeners("data").resume();
    socket.write(head(formPaths[target.at], { "Content-Type": form, ...length }));
    for (let sent = 0; sent < bytes && socket.writable && !target.signal.aborted; sent += mebibyte)
      if (!socket.write(isChunked ? chunk : part))
        await Promise.race([once(socket, "drain").catch(() => 0), ended(socket, target)]);
  });
};

const stalled = (target: HttpTarget, path: string, headers: Readonly<Record<string, string>>) => {
  const start = head(path, { "Content-Length": mebibyte, ...headers });
  return hold(target, 700, Buffer.concat([Buffer.from(start), Buffer.alloc(mebibyte - 1, "a")]));
};

/** The attacks on the HTTP listeners, by name. Each returns how many connections it opened. */
export const httpAttacks: Readonly<Record<string, (target: HttpTarget) => Promise<number>>> = {
  "forms of 1 MiB": (target) => forms(target, mebibyte),
  "forms of 16 MiB": (target) => forms(target, 16 * mebibyte),
  "bodies of 400 MB": (target) => largeBodies(target, false),
  "chunked bodies of 400 MB": (target) => largeBodies(target, true),
  "stalled bodies": (target) => stalled(target, formPaths[target.at], { "Content-Type": form }),
  "stalled bodies with a bearer": (target) =>
    stalled(target, "/v1/collector/configs", {
      "Content-Type": "application/json",
      Authorization: "Bearer x",
    }),
  "stalled SCIM bodies": (target) =>
    stalled(target, "/scim/v2/Users", {
      "Content-Type": "application/scim+json",
      Authorization: "Bearer x",
    }),
  "bodies in tiny chunks": (target) => {
    const headers = { "Content-Type": form, "Transfer-Encoding": "chunked" };
    const chunks = Buffer.from("1\r\na\r\n".repeat(60_000));
    return hold(
      target,
      100,
      Buffer.concat([Buffer.from(head(formPaths[target.at], headers)), chunks]),
      20,
    );
  },
  "stalled headers": (target) =>
    hold(target, 2_000, Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\nX-A: ${"a".repeat(31_000)}`)),
  "pipelined requests": (target) => {
    const path = target.at === "core" ? "/v1/openapi.json" : "/login";
    return hold(target, 20, Buffer.from(head(path, {}, "GET").repeat(1_500)), 5);
  },
  "unread answers": (target) => {
    const path = target.at === "core" ? "/v1/openapi.json" : "/login";
    return hold(target, 700, Buffer.from(head(path, {}, "GET").repeat(20)), 100);
  },
};
