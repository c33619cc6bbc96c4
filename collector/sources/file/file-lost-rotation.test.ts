import {
  appendFileSync,
  copyFileSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestFiles, inOrder, lines, settle } from "#tests/collector/support/file-source.ts";
import { eventually } from "#tests/support/eventually.ts";

let files: ReturnType<typeof createTestFiles>;

beforeEach(() => {
  files = createTestFiles();
});

afterEach(() => files.end());

const expectNoMore = async (last: number) => {
  await settle();
  expect(inOrder(files.texts())).toEqual(lines(1, last));
};

describe("K7: rotation while the collector is stopped", () => {
  it("twice by rename: reads the file between, too", async () => {
    await files.begin(50);
    await files.restart({}, () => {
      files.write(51, 60);
      files.rename("app.log", "app.log.1");
      files.write(61, 200);
      files.rename("app.log.1", "app.log.2");
      files.rename("app.log", "app.log.1");
      files.write(201, 210);
    });
    await files.expectLines(210);
    await files.restart();
    await expectNoMore(210);
  });

  it("by rename, and compressed: reads the end of the first file and the one between", async () => {
    await files.begin(50);
    await files.restart({}, () => {
      files.write(51, 60);
      files.rename("app.log", "app.log.2");
      files.gzip("app.log.2");
      files.write(61, 200);
      files.rename("app.log", "app.log.1");
      files.gzip("app.log.1");
      files.write(201, 210);
    });
    await files.expectLines(210);
    expect(files.queue.stats().fileGapBytes).toBe(0);
  });

  it("into a file that is gone: counts a gap", async () => {
    await files.begin(50);
    await files.restart({}, () => {
      files.write(51, 60);
      unlinkSync(files.log());
      files.write(61, 70);
    });
    await eventually(() => expect(files.texts()).toEqual([...lines(1, 50), ...lines(61, 70)]));
    await eventually(() => expect(files.queue.stats().fileGaps).toBe(1));
  });

  it("leaves older generations, copies and files of other names alone", async () => {
    for (const age of [1, 2, 3]) writeFileSync(files.log(`app.log.${age}`), `older ${age}\n`);
    for (const age of [3, 2]) files.gzip(`app.log.${age}`);
    await files.begin(50);
    await expectNoMore(50);
    await files.restart({}, () => {
      files.write(51, 60);
      copyFileSync(files.log(), files.log("app.log.copy"));
      files.rotate();
      writeFileSync(files.log("apple.log.1"), "another\n");
      files.write(61, 70);
    });
    await files.expectLines(70);
    await expectNoMore(70);
  });
});

describe("K7: rotation while the collector runs", () => {
  it("four times by rename between two looks at the directory: reads every file", async () => {
    await files.begin(50);
    for (let round = 1; round <= 4; round++) {
      files.rotate();
      files.write(round * 50 + 1, round * 50 + 50);
    }
    await files.expectLines(250);
  });

  it("by copy and truncate between two reads: reads the end of each copy", async () => {
    await files.begin(50);
    for (let round = 1; round <= 3; round++) {
      files.write(round * 50 + 1, round * 50 + 50);
      files.copyAndTruncate();
    }
    files.write(201, 210);
    await files.expectLines(210);
    await files.restart();
    await expectNoMore(210);
  });

  it("by rename, by copy and truncate, and by rename again: reads no copy twice, also after a restart", async () => {
    await files.begin(50);
    files.rotate();
    files.write(51, 100);
    await files.expectLines(100);
    files.write(101, 110);
    files.copyAndTruncate();
    files.write(111, 120);
    await files.expectLines(120);
    files.rotate();
    files.write(121, 130);
    await files.expectLines(130);
    await expectNoMore(130);
    await files.restart({}, () => {
      files.rotate();
      files.write(131, 140);
    });
    await files.expectLines(140);
    await expectNoMore(140);
  });

  it("by copy and truncate before anything was read since the last time: reads each copy", async () => {
    await files.begin(50);
    files.copyAndTruncate();
    await settle();
    for (let last = 50; last < 80; last += 10) {
      files.write(last + 1, last + 10);
      files.copyAndTruncate();
      await files.expectLines(last + 10);
    }
    files.write(81, 90);
    await files.expectLines(90);
    expect(files.queue.stats().fileGaps).toBe(0);
  });

  it("by rename and compression at once: reads neither twice, nor a later file that gets an inode from before", async () => {
    const found = () => {
      const { dev, ino } = statSync(files.log());
      return eventually(() =>
        expect([...files.queue.checkpoints("file").keys()]).toContain(`${dev}:${ino}`),
      );
    };
    await files.begin(50);
    for (let last = 50; last < 170; last += 20) {
      // Found before anything is in it, then compressed before it is read; and compressed before it is found.
      files.write(last + 1, last + 10);
      files.rename("app.log", "app.log.2");
      files.gzip("app.log.2");
      files.write(last + 11, last + 20);
      files.rename("app.log", "app.log.1");
      files.gzip("app.log.1");
      files.write(1, 0);
      await found();
      await files.expectLines(last + 20);
      for (const name of ["app.log.1.gz", "app.log.2.gz"]) unlinkSync(files.log(name));
    }
    await expectNoMore(170);
  });

  it("by truncation without a copy: counts the bytes that it had seen and not stored", async () => {
    await files.begin(50);
    appendFileSync(files.log(), "no line end");
    await settle();
    truncateSync(files.log());
    files.write(51, 52);
    await files.expectLines(52);
    expect(files.queue.stats()).toMatchObject({ fileGaps: 1, fileGapBytes: "no line end".length });
    expect(files.source?.counters?.()).toMatchObject({ gaps: 1, gap_bytes: 11 });
  });
});
