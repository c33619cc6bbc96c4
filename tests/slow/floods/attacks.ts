import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  connectRaw,
  dataFrames,
  frameTypes,
  http2Frame,
  postHeaders,
  resetStream,
} from "#tests/support/ingest/raw-http2.ts";
import { rejectedFrames } from "#tests/support/ingest/rejected-frames.ts";
import type { MessageAttack } from "./message-attacks.ts";

/** The identity of the attacker. */
export const attackerHost = "https://fleet.flood/d/attacker";

/** The context of an attack, which runs until the signal aborts. */
export interface Target {
  port: number;
  caPem: string;
  /** The attacker's certificate, in PEM. */
  pair: { cert: string; key: string };
  signal: AbortSignal;
}

const forwardPath = "/svc.ingest.v1.IngestService/Forward";
const heartbeatPath = "/v1/collector/heartbeat";
const grpc = { "content-type": "application/grpc" };

/** Opens a connection again and again, and writes bursts on each until core closes it: at least one, however late the thread gets the CPU. */
const flood = async (target: Target, burst: (from: number) => Buffer, streamsOfBurst: number) => {
  let streams = 0;
  const isOver = () => streams > 0 && target.signal.aborted;
  while (!isOver()) {
    const { socket, closed } = await connectRaw(target, target.pair);
    for (let id = 1; id < 200_000 && socket.writable && !isOver(); id += 2 * streamsOfBurst) {
      streams += streamsOfBurst;
      if (!socket.write(burst(id)))
        await Promise.race([once(socket, "drain").catch(() => 0), closed]);
      await sleep(1);
    }
    socket.destroy();
    await sleep(20);
  }
  return streams;
};

/** Holds many connections, with `streams` unfinished requests on each, and makes new ones when core closes some. */
const hold = async (
  target: Target,
  connections: number,
  open: (id: number) => Buffer,
  streams: number,
) => {
  const sockets = new Set<Socket>();
  let opened = 0;
  const isOver = () => opened > 0 && target.signal.aborted;
  while (!isOver()) {
    while (sockets.size < connections && !isOver()) {
      const { socket } = await connectRaw(target, target.pair);
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      for (let index = 0; index < streams && socket.writable; index++, opened++)
        socket.write(open(2 * index + 1));
    }
    await sleep(50);
  }
  for (const socket of sockets) socket.destroy();
  return opened;
};

const data = (id: number, bytes: number) => http2Frame(frameTypes.data, 0, id, Buffer.alloc(bytes));

/** Sends requests with one message, eight at once, which is as many streams as an identity may have. */
export const sendMessages = (target: Target, { path, headers, body }: MessageAttack) => {
  const request = (id: number) => [
    postHeaders(id, path, headers),
    ...dataFrames(id, body),
    http2Frame(frameTypes.data, 1, id, Buffer.alloc(0)),
  ];
  const ids = Array.from({ length: 8 }, (_, index) => 2 * index);
  return flood(
    target,
    (from) => Buffer.concat(ids.flatMap((id) => request(from + id))),
    ids.length,
  );
};

/** The attacks other than by messages, by name. Each returns how many streams or connections it opened. */
export const attacks: Readonly<Record<string, (target: Target) => Promise<number>>> = {
  "rapid reset": (target) =>
    flood(
      target,
      (from) =>
        Buffer.concat(
          Array.from({ length: 100 }, (_, index) => [
            postHeaders(from + 2 * index, forwardPath, grpc),
            resetStream(from + 2 * index),
          ]).flat(),
        ),
      100,
    ),
  "refused streams": (target) =>
    flood(
      target,
      (from) =>
        Buffer.concat(
          Array.from({ length: 10 }, (_, index) =>
            postHeaders(from + 2 * index, forwardPath, grpc),
          ),
        ),
      10,
    ),
  "slow bodies": (target) =>
    hold(
      target,
      20,
      (id) =>
        Buffer.concat([
          postHeaders(id, heartbeatPath),
          ...Array.from({ length: 4 }, () => data(id, 16_000)),
        ]),
      100,
    ),
  "slow messages": (target) =>
    hold(
      target,
      20,
      (id) => {
        const prefix = Buffer.alloc(5);
        prefix.writeUInt32BE(4_000_000, 1);
        return Buffer.concat([
          postHeaders(id, forwardPath, grpc),
          http2Frame(frameTypes.data, 0, id, prefix),
          ...Array.from({ length: 4 }, () => data(id, 16_000)),
        ]);
      },
      100,
    ),
  "unread acks": (target) => {
    // Each ack is eight times as large as its frame.
    const body = rejectedFrames(attackerHost, { frames: 4, envelopes: 20_000 });
    return hold(
      target,
      4,
      (id) => Buffer.concat([postHeaders(id, forwardPath, grpc), ...dataFrames(id, body)]),
      2,
    );
  },
  "10,000 streams": (target) => hold(target, 1_000, (id) => postHeaders(id, forwardPath, grpc), 10),
  "bare connections": async ({ port, signal }) => {
    const sockets = new Set<Socket>();
    let opened = 0;
    while (!signal.aborted) {
      for (let index = 0; index < 50 && sockets.size < 2_000; index++, opened++) {
        const socket = connect(port, "127.0.0.2", () => undefined);
        sockets.add(socket.on("error", () => undefined));
        socket.once("close", () => sockets.delete(socket));
      }
      await sleep(50);
    }
    for (const socket of sockets) socket.destroy();
    return opened;
  },
};
