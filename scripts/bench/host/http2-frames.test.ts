import { createServer, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { expect, it } from "vitest";
import { clientPreface, createFrameReader, postHeaders, requestFrames } from "./http2-frames.ts";

it("the frames of a simulated host are those of a request that Node's server accepts, and its responses are read in any pieces", async () => {
  const server = createServer();
  const lengths: unknown[] = [];
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    lengths.push(headers["content-length"]);
    stream.respond({ ":status": headers[":path"] === "/ok" ? 200 : 429 });
    stream.pipe(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const responses = new Map<number, { isOk?: boolean; text: string }>();
  const ended = Promise.withResolvers<void>();
  const of = (stream: number) => {
    const response = responses.get(stream) ?? { text: "" };
    responses.set(stream, response);
    return response;
  };
  let endedStreams = 0;
  let isOpen = false;
  const read = createFrameReader({
    reply: (bytes) => void socket.write(bytes),
    onSettings: () => {
      isOpen = true;
    },
    onHeaders: (stream, isOk) => {
      of(stream).isOk = isOk;
    },
    onData: (stream, bytes) => {
      of(stream).text += bytes.toString();
    },
    onEnd: () => {
      if (++endedStreams === 2) ended.resolve();
    },
    onGoAway: () => undefined,
  });
  socket.on("data", (chunk: Buffer) => {
    for (const byte of chunk) read(Buffer.of(byte));
  });
  socket.write(clientPreface);
  const request = (stream: number, path: string, body: string) =>
    socket.write(
      requestFrames(stream, {
        headers: postHeaders(path, "application/json"),
        body: Buffer.from(body),
        isOpen: false,
      }),
    );
  request(1, "/ok", "y".repeat(10_000));
  request(3, "/limited", "x".repeat(10_000));
  await ended.promise;
  expect(isOpen).toBe(true);
  expect(responses.get(1)).toEqual({ isOk: true, text: "y".repeat(10_000) });
  expect(responses.get(3)).toEqual({ isOk: false, text: "x".repeat(10_000) });
  expect(lengths).toEqual(["10000", "10000"]);
  socket.destroy();
  server.close();
});
