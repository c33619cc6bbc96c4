import { expect } from "vitest";
import type { Encoding } from "#collector/sources/file/charset.ts";
import {
  createMultiline,
  type Multiline,
  type MultilineConfig,
} from "#collector/sources/file/multiline.ts";
import type { PodLabels } from "#collector/sources/file/pod-labels.ts";
import { noPrint, type Position, parsePosition } from "#collector/sources/file/position.ts";
import type { LogFile } from "#collector/sources/file/source-files.ts";
import { createTailReader } from "#collector/sources/file/tail.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { decodeRecords, encodeBlock, type StoredRecord, textsOf } from "#tests/support/queue.ts";

/** How a tail in memory reads. */
export interface MemoryTailOptions {
  encoding?: Encoding;
  multiline?: MultilineConfig;
  bufferBytes?: number;
  preset?: "containers";
  podLabels?: PodLabels;
  path?: string;
}

/** Creates a file in memory and a tail that follows it. */
export const createMemoryTail = async ({
  encoding = "utf-8",
  multiline: config,
  bufferBytes = 256 * 1024,
  preset,
  podLabels,
  path = "/logs/app.log",
}: MemoryTailOptions = {}) => {
  const clock = createTestClock();
  const logged = createTestLog();
  const multiline: Multiline | undefined = config && (await createMultiline(config));
  const buffer = Buffer.alloc(bufferBytes);
  const { signal } = new AbortController();
  const records: StoredRecord[] = [];
  let content = Buffer.alloc(0);
  let saved: Position = { path, offset: 0, head: noPrint };
  let replaced = 0;
  let unparsed = 0;
  const stat = () => ({
    dev: 1,
    ino: 1,
    size: content.length,
    mtimeMs: content.length,
    links: 1,
    isFile: true,
    isDirectory: false,
  });
  const file: LogFile = {
    path,
    realPath: path,
    stat: stat(),
    mount: { mountpoint: "/", type: "ext4" },
    read: async (into, offset) => into.subarray(0, content.copy(into, 0, offset)),
    restat: async () => stat(),
    close: async () => undefined,
  };
  const reader = createTailReader(
    {
      source: "file",
      partialAfterMs: 5_000,
      encoding,
      multiline: Promise.resolve(multiline),
      preset,
      podLabels,
    },
    {
      append: async (batch, { checkpoints = [] } = {}) => {
        if ("count" in batch && batch.count > 0)
          records.push(...decodeRecords(encodeBlock(batch, records.length + 1).envelopes));
        const position = parsePosition(checkpoints[0]?.value ?? "");
        if (position !== null) saved = position;
        return "stored";
      },
      clock,
      log: logged,
    },
    {
      truncated: async () => undefined,
      skipped: () => undefined,
      replaced: (characters) => {
        replaced += characters;
      },
      unparsed: (lines) => {
        unparsed += lines;
      },
    },
  );
  const open = () => reader.open({ key: "1:1", file }, saved);
  let tail = open();
  const read = async () => {
    while (await reader.step(tail, buffer, signal));
  };
  return {
    records,
    logged,
    read,
    replaced: () => replaced,
    unparsed: () => unparsed,
    /** Appends bytes, and has the tail read them. */
    write: async (bytes: Uint8Array | string) => {
      content = Buffer.concat([content, Buffer.from(bytes)]);
      await read();
    },
    /** Replaces the tail with one that knows only what was stored. */
    kill: () => {
      tail = open();
    },
    /** Lets time pass, and has the tail read. */
    wait: async (ms: number) => {
      await clock.advance(ms);
      await read();
    },
    finish: () => reader.finish(tail, buffer, signal),
    texts: () => textsOf(records),
    /** Expects these texts of records, and no others. */
    expectTexts: (...expected: string[]) => expect(textsOf(records)).toEqual(expected),
    parts: () =>
      records.map(({ attributes }) => [attributes["file.part"], attributes["file.partial"]]),
    offsets: () => records.map(({ attributes }) => Number(attributes["file.offset"])),
  };
};
