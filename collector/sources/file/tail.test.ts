import { appendFileSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { decodeRecords, encodeBlock } from "#tests/support/queue.ts";
import { positionAt } from "./position.ts";
import { createTail } from "./tail.ts";

it("does not read from the old offset of a file that is rewritten between the check and the read", async () => {
  const dir = newFolder();
  const path = join(dir, "app.log");
  writeFileSync(path, "one\ntwo\n");
  const real = await open(path, "r");
  const { signal } = new AbortController();
  let beforeRead: (() => void) | undefined;
  const file = new Proxy(real, {
    get: (target, name: keyof FileHandle) => {
      if (name === "read") beforeRead?.();
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const lines: string[] = [];
  let failsToRotate = false;
  const tail = createTail(
    { name: "file", checkpointSource: "file", buffer: Buffer.alloc(100) },
    file,
    await real.stat(),
    await positionAt(real, { path }, 0),
    {
      append: async (batch) => {
        if (!("count" in batch)) expect.fail("a tail appends lines");
        const { envelopes } = encodeBlock(batch, 1);
        lines.push(
          ...decodeRecords(envelopes).map(({ payload }) => new TextDecoder().decode(payload)),
        );
        return "stored";
      },
      clock: systemClock,
      log: createTestLog(),
    },
    {
      truncated: async ({ restart }) => {
        if (failsToRotate) throw new Error("the disk is full");
        return restart;
      },
      unread: async ({ position }) => position,
    },
  );
  await tail.step(signal);
  appendFileSync(path, "three\n");
  await tail.step(signal);
  // The next step has checked, found no change, and continues from its offset.
  beforeRead = () => {
    writeFileSync(path, "another beginning\nfour\nfive\n");
    beforeRead = undefined;
  };
  while (await tail.step(signal));
  expect(lines).toEqual(["one", "two", "three", "another beginning", "four", "five"]);
  // Not changed any more, a truncated file is read once its position can be stored.
  writeFileSync(path, "six\n");
  failsToRotate = true;
  await expect(tail.step(signal)).rejects.toThrow("full");
  failsToRotate = false;
  while (await tail.step(signal));
  expect(lines.slice(6)).toEqual(["six"]);
  await tail.close();
});
