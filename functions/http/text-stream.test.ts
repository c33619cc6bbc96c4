import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { textStream } from "./text-stream.ts";

const setUp = () => {
  const clock = createTestClock();
  const state = { given: 0, ended: false };
  const texts = async function* () {
    try {
      for (; state.given < 3; ) yield `${++state.given}\n`;
    } finally {
      state.ended = true;
    }
  };
  return { clock, state, reader: textStream(texts(), { clock, idleMs: 60_000 }).getReader() };
};
const text = ({ value }: { value?: Uint8Array | undefined }) =>
  value && new TextDecoder().decode(value);

it("reads the iterator at the reader's pace while it reads within the timeout", async () => {
  const { clock, state, reader } = setUp();
  const read = [];
  for (let at = 1; at <= 3; at++) {
    await clock.advance(59_999);
    expect(state.given).toBe(at);
    read.push(text(await reader.read()));
  }
  expect([read, await reader.read(), state.ended]).toEqual([
    ["1\n", "2\n", "3\n"],
    { done: true, value: undefined },
    true,
  ]);
  await clock.advance(120_000);
});

it("errors when the reader stops reading, and ends the iterator", async () => {
  const { clock, state, reader } = setUp();
  await reader.read();
  await clock.advance(59_999);
  expect(state).toEqual({ given: 2, ended: false });
  await clock.advance(1);
  expect(state).toEqual({ given: 2, ended: true });
  await expect(reader.read()).rejects.toThrow("no read for 60 s");
});

it("ends the iterator when the reader disconnects", async () => {
  const { clock, state, reader } = setUp();
  await reader.read();
  await reader.cancel();
  expect(state.ended).toBe(true);
  await clock.advance(120_000);
});
