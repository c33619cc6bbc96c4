import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { createMounts } from "#collector/files/mounts.ts";
import { systemClock } from "#kit/clock.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createCompressedFile } from "./compressed-file.ts";
import { createSourceFiles, type LogFile } from "./source-files.ts";

const sourceFiles = createSourceFiles(createMounts(systemClock));
const text = Buffer.from(
  Array.from({ length: 40_000 }, (_, line) => `line ${line} ${line ** 3}\n`).join(""),
);

const openPacked = async (packed: Buffer, limits?: { bytesMax: number; measuredBytes: number }) => {
  const path = join(newFolder(), "app.log.gz");
  writeFileSync(path, packed);
  const file = await sourceFiles.open(path, { neverRead: [] });
  if (file === null) return expect.fail("the file is there");
  onTestFinished(() => file.close());
  return { path, file, compressed: createCompressedFile(file, limits) };
};

const contentOf = async (packed: Buffer): Promise<LogFile> => {
  const content = await (await openPacked(packed)).compressed.content();
  return typeof content === "object" ? content : expect.fail(content);
};

it("reads a compressed file as its content is, at any place, also of several members", async () => {
  const half = text.length >> 1;
  const members = [text.subarray(0, half), text.subarray(half)].map((part) => gzipSync(part));
  const content = await contentOf(Buffer.concat(members));
  expect(content.stat.size).toBe(text.length);
  const offset = fc.integer({ min: 0, max: text.length + 10 });
  const bytes = fc.constantFrom(4, 1024, 5_000, 262_144);
  const property = fc.asyncProperty(fc.array(fc.tuple(offset, bytes)), async (reads) => {
    const found = await Promise.all(
      reads
        .filter(([, size]) => size <= 1024)
        .map(async ([at, size]) => [at, size, await content.read(Buffer.alloc(size), at)] as const),
    );
    for (const [at, size, read] of found) expect(read).toEqual(text.subarray(at, at + size));
    for (const [at, size] of reads)
      expect(await content.read(Buffer.alloc(size), at)).toEqual(text.subarray(at, at + size));
  });
  await fc.assert(property, { numRuns: 20 });
});

it("measures a part at a time, and reads no more than it may", async () => {
  const { compressed } = await openPacked(gzipSync(text), {
    measuredBytes: 200_000,
    bytesMax: 500_000,
  });
  expect([await compressed.content(), await compressed.content()]).toEqual([
    "measuring",
    "measuring",
  ]);
  const content = await compressed.content();
  expect(content).toMatchObject({ isCut: true, stat: { size: 500_000 } });
  if (typeof content !== "object") return;
  expect((await content.read(Buffer.alloc(5_000), 499_000)).length).toBe(1_000);
});

it("knows a file that is not complete, and one that is no gzip", async () => {
  const packed = gzipSync(text);
  const { path, file, compressed } = await openPacked(packed.subarray(0, 90_000));
  expect(await compressed.content()).toBe("damaged");
  appendFileSync(path, packed.subarray(90_000));
  expect(await createCompressedFile(file).content()).toMatchObject({
    stat: { size: text.length },
  });
  const other = await openPacked(text);
  expect(await other.compressed.outline()).toBeUndefined();
  expect(await other.compressed.content()).toBe("damaged");
});
