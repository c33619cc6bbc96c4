import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { readChunks } from "./ingest-streams.ts";

const bytes = (length: number, value = 0) => new Uint8Array(length).fill(value);
const startStream = () => new Readable({ read: () => undefined });

it("returns each chunk as it was pushed, before and after its reader waits, and ends with the stream", async () => {
  const stream = startStream();
  const chunks = readChunks(stream)[Symbol.asyncIterator]();
  const first = chunks.next();
  stream.push(bytes(3, 1));
  expect(await first).toMatchObject({ value: { length: 3 } });
  stream.push(bytes(2, 2));
  stream.push(bytes(1, 3));
  stream.push(null);
  expect((await chunks.next()).value).toHaveLength(2);
  expect((await chunks.next()).value).toHaveLength(1);
  expect(await chunks.next()).toEqual({ done: true, value: undefined });
  expect(await chunks.next()).toEqual({ done: true, value: undefined });
});

it("pauses the stream while chunks wait for their reader, so that unread bytes are bounded", async () => {
  const stream = startStream();
  const chunks = readChunks(stream)[Symbol.asyncIterator]();
  const first = chunks.next();
  stream.push(bytes(1));
  await first;
  while (stream.push(bytes(16 * 1024)));
  await expect.poll(() => stream.isPaused()).toBe(true);
  let received = 0;
  const sent = 64 * 1024;
  while (received < sent) received += (await chunks.next()).value?.length ?? 0;
  expect(stream.isPaused()).toBe(false);
});

it("rejects when the stream fails or closes before its end, after the chunks that arrived", async () => {
  const failing = startStream();
  const chunks = readChunks(failing)[Symbol.asyncIterator]();
  const first = chunks.next();
  failing.push(bytes(1));
  await first;
  failing.destroy(new Error("reset"));
  await expect(chunks.next()).rejects.toThrow("reset");
  const closing = startStream();
  const waiting = readChunks(closing)[Symbol.asyncIterator]().next();
  closing.destroy();
  await expect(waiting).rejects.toThrow("before its end");
});

it("ends or rejects at once for a stream that ended or closed before its reader came", async () => {
  const empty = startStream();
  const closed = startStream();
  empty.push(null);
  empty.read(0);
  closed.destroy();
  await expect.poll(() => empty.readableEnded && closed.closed).toBe(true);
  expect(await readChunks(empty)[Symbol.asyncIterator]().next()).toEqual({
    done: true,
    value: undefined,
  });
  await expect(readChunks(closed)[Symbol.asyncIterator]().next()).rejects.toThrow("before its end");
});

it("pauses the stream when its reader returns", async () => {
  const stream = startStream();
  const chunks = readChunks(stream)[Symbol.asyncIterator]();
  const next = chunks.next();
  stream.push(bytes(1));
  await next;
  await chunks.return?.();
  stream.push(bytes(2));
  expect(stream.isPaused()).toBe(true);
  expect(stream.readableLength).toBe(2);
});
