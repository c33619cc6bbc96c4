import { expect, it } from "vitest";
import { readAnswer } from "./conversation.ts";

const id = "01920000-0000-7000-8000-000000000001";
const done = `event: done\ndata: {"message_id":"${id}","status":"complete"}\n\n`;

/** Reads an answer whose bytes arrive in pieces of this size; returns its events, or the code of the problem. */
const read = async (text: string, size = 7) => {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (at >= bytes.length) controller.close();
      else controller.enqueue(bytes.slice(at, at + size));
      at += size;
    },
  });
  const found: unknown[] = [];
  try {
    for await (const { event, data } of readAnswer(
      new Response(body),
      new AbortController().signal,
    ))
      found.push([event, data]);
  } catch (problem) {
    found.push((problem as { code: string }).code);
  }
  return found;
};

it("yields its events, however the bytes are cut", async () => {
  const text = `: open\n\nevent: text_delta\r\ndata: {"text":"é\u2028"}\r\n\r\n${done}event: text_delta\ndata: {"text":"late"}\n\n`;
  for (const size of [1, 2, 3, 1000])
    expect(await read(text, size)).toEqual([
      ["text_delta", { text: "é\u2028" }],
      ["done", { message_id: id, status: "complete" }],
    ]);
});

it("T1: is lost when it ends without `done` or `error`", async () => {
  const delta = 'event: text_delta\ndata: {"text":"Half"}\n\n';
  expect(await read(delta)).toEqual([["text_delta", { text: "Half" }], "connection_lost"]);
  expect(await read(`${delta}event: done\ndata: {`)).toEqual([
    ["text_delta", { text: "Half" }],
    "connection_lost",
  ]);
  expect(await read("")).toEqual(["connection_lost"]);
});

it("skips events and members that only a newer core sends, and rejects those it cannot read", async () => {
  const newer = `event: thought\ndata: x\n\nevent: text_delta\ndata: {"text":"a","mood":1}\n\n${done}`;
  expect((await read(newer))[0]).toEqual(["text_delta", { text: "a" }]);
  expect(await read("event: text_delta\ndata: {\n\n")).toEqual(["unreadable"]);
  expect(await read('event: text_delta\ndata: {"text":1}\n\n')).toEqual(["unreadable"]);
  expect(await read("event: constructor\ndata: 1\n\n")).toEqual(["connection_lost"]);
});
