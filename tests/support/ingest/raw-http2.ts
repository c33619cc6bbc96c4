import { once } from "node:events";
import { connect as connectTls } from "node:tls";
import type { TestClient } from "../ingest.ts";

/** HTTP/2 frames by hand, for what a well-behaved client cannot send (RFC 9113). */
export const frameTypes = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Returns one frame. */
export const http2Frame = (type: number, flags: number, stream: number, payload: Uint8Array) => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};

/** Returns the HEADERS of a POST to `path`, whose body may follow. */
export const postHeaders = (
  stream: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
) => {
  const text = (value: string) => Buffer.concat([Buffer.of(value.length), Buffer.from(value)]);
  const block = Buffer.concat([
    Buffer.of(0x83, 0x87, 0x04),
    text(path),
    Buffer.of(0x01),
    text("localhost"),
    ...Object.entries(headers).flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]),
  ]);
  return http2Frame(frameTypes.headers, 4, stream, block);
};

/** Returns DATA of a body that continues, in frames of 16 KB at most. */
export const dataFrames = (stream: number, body: Uint8Array) =>
  Array.from({ length: Math.ceil(body.length / 16_000) }, (_, index) =>
    http2Frame(frameTypes.data, 0, stream, body.subarray(index * 16_000, (index + 1) * 16_000)),
  );

/** Returns a RST_STREAM with CANCEL. */
export const resetStream = (stream: number) =>
  http2Frame(frameTypes.reset, 0, stream, Buffer.of(0, 0, 0, 8));

/** Connects, and sends the preface and empty settings. `closed` resolves when the connection is closed. */
export const connectRaw = async (
  to: { port: number; caPem: string },
  { cert, key }: Pick<TestClient, "cert" | "key">,
) => {
  const socket = connectTls({
    port: to.port,
    host: "127.0.0.1",
    ca: to.caPem,
    cert,
    key,
    servername: "localhost",
    ALPNProtocols: ["h2"],
  });
  socket.on("error", () => undefined);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  await Promise.race([once(socket, "secureConnect").catch(() => undefined), closed]);
  socket.resume();
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(http2Frame(frameTypes.settings, 0, 0, Buffer.alloc(0)));
  return { socket, closed };
};
