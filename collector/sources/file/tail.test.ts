import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createMounts } from "#collector/files/mounts.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { decodeRecords, encodeBlock, textsOf } from "#tests/support/queue.ts";
import { noPrint } from "./position.ts";
import { createSourceFiles } from "./source-files.ts";
import { createTailReader } from "./tail.ts";

it("does not read from the old offset of a file that is rewritten between the check and the read", async () => {
  const path = join(newFolder(), "app.log");
  writeFileSync(path, "one\ntwo\n");
  const opened = await createSourceFiles(createMounts(systemClock)).open(path, { neverRead: [] });
  if (opened === null) return expect.fail("the file is there");
  const { signal } = new AbortController();
  const buffer = Buffer.alloc(2_000);
  let beforeRead: (() => void) | undefined;
  const file = {
    ...opened,
    read: (into: Buffer, offset: number) => {
      beforeRead?.();
      return opened.read(into, offset);
    },
  };
  const lines: string[] = [];
  let failsToRotate = false;
  const reader = createTailReader(
    {
      source: "file",
      partialAfterMs: 3_600_000,
      encoding: "utf-8",
      multiline: Promise.resolve(undefined),
    },
    {
      append: async (batch) => {
        if (!("count" in batch)) expect.fail("a tail appends lines");
        const { envelopes } = encodeBlock(batch, 1);
        lines.push(...textsOf(decodeRecords(envelopes)));
        return "stored";
      },
      clock: systemClock,
      log: createTestLog(),
    },
    {
      truncated: async () => {
        if (failsToRotate) throw new Error("the disk is full");
      },
      skipped: () => undefined,
      replaced: () => undefined,
      unparsed: () => undefined,
    },
  );
  const tail = reader.open({ key: "1:1", file }, { path, offset: 0, head: noPrint });
  await reader.step(tail, buffer, signal);
  appendFileSync(path, "three\n");
  await reader.step(tail, buffer, signal);
  // The next step has checked, found no change, and continues from its offset.
  beforeRead = () => {
    writeFileSync(path, "another beginning\nfour\nfive\n");
    beforeRead = undefined;
  };
  while (await reader.step(tail, buffer, signal));
  expect(lines).toEqual(["one", "two", "three", "another beginning", "four", "five"]);
  // Not changed any more, a truncated file is read once its position can be stored.
  writeFileSync(path, "six\n");
  failsToRotate = true;
  await expect(reader.step(tail, buffer, signal)).rejects.toThrow("full");
  failsToRotate = false;
  while (await reader.step(tail, buffer, signal));
  expect(lines.slice(6)).toEqual(["six"]);
  // Nor has it ended if it is rewritten while it is read for the last time.
  beforeRead = () => {
    writeFileSync(path, "seven\n");
    beforeRead = undefined;
  };
  expect(await reader.finish(tail, buffer, signal)).toBe(false);
  while (await reader.step(tail, buffer, signal));
  expect(await reader.finish(tail, buffer, signal)).toBe(true);
  expect(lines.slice(7)).toEqual(["seven"]);
  await tail.file.close();
});
