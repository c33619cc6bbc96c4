import { appendFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestFiles, lines, settle } from "#tests/collector/support/file-source.ts";
import { eventually } from "#tests/support/eventually.ts";
import { readAll, textsOf } from "#tests/support/queue.ts";

let files: ReturnType<typeof createTestFiles>;

beforeEach(() => {
  files = createTestFiles();
});

afterEach(() => files.end());

describe("lines", () => {
  it("become one record each, with file and offset, as they are written", async () => {
    writeFileSync(files.log(), "one\r\n\nthree\n");
    await files.start();
    await files.expectTexts(["one", "", "three"]);
    appendFileSync(files.log(), "vierß\n");
    await files.expectTexts(["one", "", "three", "vierß"]);
    expect(
      files.records().map(({ kind, source: name, attributes }) => [kind, name, attributes]),
    ).toEqual(
      ["0", "5", "6", "12"].map((offset) => [
        "log_line",
        "file",
        { "file.path": files.log(), "file.offset": offset },
      ]),
    );
  });

  it("become records only once they are complete", async () => {
    writeFileSync(files.log(), "whole\nhal");
    await files.start();
    await files.expectTexts(["whole"]);
    await settle();
    appendFileSync(files.log(), "f");
    await settle();
    expect(files.texts()).toEqual(["whole"]);
    appendFileSync(files.log(), "\n");
    await files.expectTexts(["whole", "half"]);
  });

  it("of 1 MiB become one record; longer ones are split and marked as partial", async () => {
    const mebibyte = 1024 * 1024;
    const text = ["a", `${"x".repeat(mebibyte)}\r`, "y".repeat(mebibyte + 10), "z"];
    writeFileSync(files.log(), `${text.join("\n")}\n${"w".repeat(mebibyte + 1)}\n`);
    await files.start();
    await eventually(() => expect(files.records()).toHaveLength(7));
    expect(
      files
        .records()
        .map(({ payload, attributes }) => [payload.length, attributes["file.partial"]]),
    ).toEqual([
      [1, undefined],
      [mebibyte, undefined],
      [mebibyte, "true"],
      [10, undefined],
      [1, undefined],
      [mebibyte, "true"],
      [1, undefined],
    ]);
  });

  it("in large numbers arrive once and in order", async () => {
    files.write(1, 20_000);
    await files.start();
    await files.expectCount(20_000);
    expect(files.texts()).toEqual(lines(1, 20_000));
  });
});

describe("the selection of files", () => {
  it("skips with start_at end what exists at the first discovery, and nothing later", async () => {
    files.write(1, 3);
    await files.start({ startAt: "end" });
    await settle();
    files.write(4, 5);
    await files.expectTexts(lines(4, 5));
    files.write(6, 7, "new.log");
    await files.expectTexts(lines(4, 7));
    await files.restart({ startAt: "end" }, () => {
      files.write(8, 9);
      files.write(10, 11, "another.log");
    });
    await files.expectLines(11, 4);
  });

  it("reports once a file whose name is not UTF-8, which it cannot open", async () => {
    const [before = "", after = ""] = files.log("m*.log").split("*");
    writeFileSync(Buffer.from(`${before}\u00fc${after}`, "latin1"), "one\n");
    await files.begin(1);
    expect(files.logged.lines.map(({ fields }) => fields)).toContainEqual(
      expect.objectContaining({ reason: "its name is not UTF-8", path: files.log("m\ufffd.log") }),
    );
  });

  it("Q3: starts on a full disk, and reads from where it found the files once there is room", async () => {
    files.write(1, 3);
    let isFull = true;
    files.storeBy(async (...call) => {
      if (isFull) throw Object.assign(new Error("database or disk is full"), { errcode: 13 });
      return files.queue.append(...call);
    });
    await files.start({ startAt: "end" });
    files.write(4, 5);
    await settle();
    isFull = false;
    await files.expectTexts(lines(4, 5));
    expect(
      [...files.queue.checkpoints("file").keys()].filter((key) => key.startsWith("pattern:")),
    ).toHaveLength(1);
  });

  it("W3: says once a round that 300 files cannot be stored, and is a condition until they can", async () => {
    for (let file = 0; file < 300; file++) files.write(1, 1, `m${file}.log`);
    let isFull = true;
    files.storeBy(async (records, options) => {
      const count = "count" in records ? records.count : records.length;
      if (isFull && count > 0)
        throw Object.assign(new Error("database or disk is full"), { errcode: 13 });
      return files.queue.append(records, options);
    });
    await files.start();
    const { source } = files;
    await eventually(() => expect(source?.counters?.().failures).toBeGreaterThanOrEqual(300));
    expect(files.logged.lines.filter(({ level }) => level === "error").length).toBeLessThan(10);
    const reason = "file: database or disk is full";
    expect(source?.condition?.()).toMatchObject({ code: "source_failed", reason });
    isFull = false;
    files.skip(90_000);
    await eventually(() => expect(source?.condition?.()).toBeUndefined());
  });

  it("ignores excluded files, other than regular files, and a second name of the same file", async () => {
    mkdirSync(files.log("directory.log"));
    files.write(1, 2);
    files.write(3, 4, "secret.log");
    symlinkSync(files.log(), files.log("link.log"));
    await files.start({ exclude: [join(files.dir, "logs/secret*")] });
    await files.expectTexts(lines(1, 2));
    await settle();
    expect(files.texts()).toEqual(lines(1, 2));
  });
});

describe("restart", () => {
  it("continues after the stored lines", async () => {
    await files.begin(1000);
    await files.restart({}, () => files.write(1001, 1100));
    await files.expectTexts(lines(1, 1100));
  });

  it("completes a line that was incomplete at the stop", async () => {
    writeFileSync(files.log(), "line 1\nli");
    await files.start();
    await files.expectTexts(lines(1, 1));
    await files.restart({}, () => appendFileSync(files.log(), "ne 2\nli"));
    await files.expectTexts(lines(1, 2));
  });

  it("reads a file with the reused inode of a followed one from its start", async () => {
    await files.begin(3);
    // A reused inode looks like the same inode with other contents.
    await files.restart({}, () =>
      writeFileSync(files.log(), "something else entirely, and longer than before\n"),
    );
    await files.expectTexts([...lines(1, 3), "something else entirely, and longer than before"]);
  });

  it("survives a malformed checkpoint", async () => {
    await files.begin(3);
    const key =
      [...files.queue.checkpoints("file").keys()].find((candidate) => /^\d+:/.test(candidate)) ??
      "";
    await files.source?.stop();
    await files.queue.append([], { checkpoints: [{ source: "file", key, value: "{" }] });
    await files.start();
    await files.expectTexts([...lines(1, 3), ...lines(1, 3)]);
  });
});

describe("a queue that", () => {
  it("is full pauses reading, and no line is lost or repeated", async () => {
    await files.reopen({ maxDiskUsageBytes: 1_000_000 });
    files.write(1, 20_000);
    await files.start();
    const read: string[] = [];
    let last = 0;
    await eventually(async () => {
      const found = readAll(files.queue, last).slice(0, 500);
      read.push(...textsOf(found));
      last = found.at(-1)?.sequence ?? last;
      await files.queue.ack(last);
      expect(files.queue.stats().bytes).toBeLessThanOrEqual(1_000_000);
      expect(read).toHaveLength(20_000);
    });
    expect(read).toEqual(lines(1, 20_000));
  });

  it("fails to store receives the same lines again", async () => {
    files.write(1, 10);
    let failures = 2;
    files.storeBy((...call) =>
      failures-- > 0 ? Promise.reject(new Error("disk I/O error")) : files.queue.append(...call),
    );
    await expect(files.start()).rejects.toThrow("disk I/O error");
    await files.source?.stop();
    await files.start().catch(() => undefined);
    await files.source?.stop();
    failures = 0;
    await files.start();
    failures = 3;
    files.write(11, 20);
    await files.expectTexts(lines(1, 20));
  });
});

it("stops at once while it waits for room in the queue", async () => {
  await files.reopen({ maxDiskUsageBytes: 1_000_000 });
  files.write(1, 20_000);
  await files.start();
  await eventually(() => expect(files.queue.stats().records).toBeGreaterThan(1000));
  await settle();
  // There will be no room: a stop that waited for it would never end.
  await files.source?.stop();
  expect(files.queue.stats().records).toBeLessThan(20_000);
});
