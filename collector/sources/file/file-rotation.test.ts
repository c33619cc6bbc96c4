import {
  appendFileSync,
  mkdirSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestFiles, lines, settle } from "#tests/collector/support/file-source.ts";
import { eventually } from "#tests/support/eventually.ts";

let files: ReturnType<typeof createTestFiles>;

beforeEach(() => {
  files = createTestFiles();
});

afterEach(() => files.end());

const pod = (name: string) => join(files.dir, "pods", name);
/** Begins at a link to the first of the pods' files, which has a line. */
const beginLinked = async () => {
  mkdirSync(join(files.dir, "pods"));
  writeFileSync(pod("0"), "line 1\n");
  symlinkSync(pod("0"), files.log());
  await files.start();
  await files.expectTexts(lines(1, 1));
};

/** Expects that all records have the name of the log. */
const expectOneName = () =>
  expect(new Set(files.records().map(({ attributes }) => attributes["file.path"]))).toEqual(
    new Set([files.log()]),
  );

describe("links and directories", () => {
  it("follow a link to its file, and to the next one when it changes, without losing the end of the first", async () => {
    await beginLinked();
    writeFileSync(pod("1"), "line 4\n");
    symlinkSync(pod("1"), files.log("next"));
    renameSync(files.log("next"), files.log());
    appendFileSync(pod("0"), "line 2\nline 3\n");
    await files.expectLines(4);
    expectOneName();
  });

  it("find the rotated target of a link by its inode after a restart", async () => {
    await beginLinked();
    await files.restart({}, () => {
      appendFileSync(pod("0"), "line 2\n");
      renameSync(pod("0"), pod("0.1"));
      writeFileSync(pod("0"), "line 3\n");
    });
    await files.expectLines(3);
  });

  it("read the files of a new directory from their start, also with start_at end", async () => {
    await files.start({ include: [join(files.dir, "later/*/app.log")], startAt: "end" });
    await settle();
    mkdirSync(join(files.dir, "later", "one"), { recursive: true });
    writeFileSync(join(files.dir, "later/one/app.log"), "line 1\nline 2\n");
    await files.expectTexts(lines(1, 2));
    expect(files.source?.counters?.()).toEqual({
      files: 1,
      lines: 2,
      dropped: 0,
      failures: 0,
      nul_bytes: 0,
      invalid_characters: 0,
      unparsed: 0,
      gaps: 0,
      gap_bytes: 0,
      waiting: 0,
      given_up: 0,
    });
  });
});

describe("rotation", () => {
  it("by rename: reads the old file to its end, and the new one from its start", async () => {
    await files.begin(5);
    files.write(6, 8);
    renameSync(files.log(), files.log("app.log.1"));
    appendFileSync(files.log("app.log.1"), "line 9\n");
    files.write(10, 12);
    await files.expectLines(12);
    expectOneName();
  });

  it("by truncation: is detected also when the file has grown past the old offset", async () => {
    await files.begin(5);
    writeFileSync(files.log(), `${lines(100, 150).join("\n")}\n`);
    await files.expectTexts([...lines(1, 5), ...lines(100, 150)]);
  });

  it("while the collector is stopped: finds the old file by its inode, and reads the new one from its start", async () => {
    files.write(1, 5);
    await files.start({ startAt: "end" });
    files.write(6, 8);
    await files.expectTexts(lines(6, 8));
    await files.restart({ startAt: "end" }, () => {
      files.write(9, 10);
      renameSync(files.log(), files.log("app.log.1"));
      files.write(11, 12);
    });
    await files.expectLines(12, 6);
  });

  it("by deletion: reads the file to its end, with its incomplete last line, and deletes the checkpoint", async () => {
    await files.begin(2);
    appendFileSync(files.log(), "line 3\nline 4");
    unlinkSync(files.log());
    await files.expectTexts(lines(1, 3));
    await settle();
    // A rotated file stays open for five minutes.
    files.skip(300_000);
    await files.expectTexts(lines(1, 4));
    await eventually(() =>
      expect([...files.queue.checkpoints("file").keys()]).toEqual([
        expect.stringMatching(/^pattern:/),
        expect.stringMatching(/^read:/),
      ]),
    );
  });
});
