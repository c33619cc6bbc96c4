import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "#tests/support/eventually.ts";
import { canMount } from "#tests/support/failing-reads.ts";
import { createTestFiles, lines, settle } from "#tests/support/file-source.ts";

let files: ReturnType<typeof createTestFiles>;

beforeEach(() => {
  files = createTestFiles();
});

afterEach(() => files.end());

const inOrder = (texts: string[]) =>
  texts.toSorted((a, b) => Number(a.slice(5)) - Number(b.slice(5)));
const expectLines = (last: number) =>
  eventually(() => expect(inOrder(files.texts())).toEqual(lines(1, last)));
const expectNoMore = async (last: number) => {
  await settle();
  expect(inOrder(files.texts())).toEqual(lines(1, last));
};
const rotate = (from: string, to: string) => renameSync(files.log(from), files.log(to));
/** Gives each of so many generations that are there the next number. */
const shift = (generations: number) => {
  for (let old = generations; old >= 1; old--)
    if (existsSync(files.log(`app.log.${old}`))) rotate(`app.log.${old}`, `app.log.${old + 1}`);
};
const copyAndTruncate = () => {
  copyFileSync(files.log(), files.log("app.log.1"));
  truncateSync(files.log());
};
const gzip = (name: string) => {
  writeFileSync(files.log(`${name}.gz`), gzipSync(readFileSync(files.log(name))));
  unlinkSync(files.log(name));
};
const begin = async () => {
  files.write(1, 50);
  await files.start();
  await files.expectTexts(lines(1, 50));
};

describe("K7: rotation while the collector is stopped", () => {
  it("twice by rename: reads the file between, too", async () => {
    await begin();
    await files.restart({}, () => {
      files.write(51, 60);
      rotate("app.log", "app.log.1");
      files.write(61, 200);
      rotate("app.log.1", "app.log.2");
      rotate("app.log", "app.log.1");
      files.write(201, 210);
    });
    await expectLines(210);
    await files.restart();
    await expectNoMore(210);
  });

  it("by rename, and compressed: reads the end of the first file and the one between", async () => {
    await begin();
    await files.restart({}, () => {
      files.write(51, 60);
      rotate("app.log", "app.log.2");
      gzip("app.log.2");
      files.write(61, 200);
      rotate("app.log", "app.log.1");
      gzip("app.log.1");
      files.write(201, 210);
    });
    await expectLines(210);
    expect(files.queue.stats().fileGapBytes).toBe(0);
  });

  it("into a file that is gone: counts a gap", async () => {
    await begin();
    await files.restart({}, () => {
      files.write(51, 60);
      unlinkSync(files.log());
      files.write(61, 70);
    });
    await eventually(() => expect(files.texts()).toEqual([...lines(1, 50), ...lines(61, 70)]));
    await eventually(() => expect(files.queue.stats().fileGaps).toBe(1));
  });

  it("leaves older generations, copies and files of other names alone", async () => {
    writeFileSync(files.log("app.log.1"), "older 1\nolder 2\n");
    await begin();
    await files.restart({}, () => {
      files.write(51, 60);
      copyFileSync(files.log(), files.log("app.log.copy"));
      rotate("app.log.1", "app.log.2");
      rotate("app.log", "app.log.1");
      writeFileSync(files.log("apple.log.1"), "another\n");
      files.write(61, 70);
    });
    await expectLines(70);
    await expectNoMore(70);
  });
});

describe("K7: rotation while the collector runs", () => {
  it("four times by rename between two looks at the directory: reads every file", async () => {
    await begin();
    for (let round = 1; round <= 4; round++) {
      shift(round - 1);
      rotate("app.log", "app.log.1");
      files.write(round * 50 + 1, round * 50 + 50);
    }
    await expectLines(250);
  });

  it("by copy and truncate between two reads: reads the end of each copy", async () => {
    await begin();
    for (let round = 1; round <= 3; round++) {
      files.write(round * 50 + 1, round * 50 + 50);
      shift(round - 1);
      copyAndTruncate();
    }
    files.write(201, 210);
    await expectLines(210);
    await files.restart();
    await expectNoMore(210);
  });

  it("by rename, by copy and truncate, and by rename again: reads no copy twice, also after a restart", async () => {
    const rename = () => {
      shift(3);
      rotate("app.log", "app.log.1");
    };
    await begin();
    rename();
    files.write(51, 100);
    await expectLines(100);
    rotate("app.log.1", "app.log.2");
    files.write(101, 110);
    copyAndTruncate();
    files.write(111, 120);
    await expectLines(120);
    rename();
    files.write(121, 130);
    await expectLines(130);
    await expectNoMore(130);
    await files.restart({}, () => {
      rename();
      files.write(131, 140);
    });
    await expectLines(140);
    await expectNoMore(140);
  });

  it("by copy and truncate before anything was read since the last time: reads each copy", async () => {
    await begin();
    copyAndTruncate();
    await settle();
    for (let last = 50; last < 80; last += 10) {
      if (existsSync(files.log("app.log.2"))) rotate("app.log.2", "app.log.3");
      rotate("app.log.1", "app.log.2");
      files.write(last + 1, last + 10);
      copyAndTruncate();
      await expectLines(last + 10);
    }
    files.write(81, 90);
    await expectLines(90);
    expect(files.queue.stats().fileGaps).toBe(0);
  });

  it("by rename and compression at once: reads neither twice, nor a later file that gets an inode from before", async () => {
    const found = () => {
      const { dev, ino } = statSync(files.log());
      return eventually(() =>
        expect([...files.queue.checkpoints("file").keys()]).toContain(`${dev}:${ino}`),
      );
    };
    await begin();
    for (let last = 50; last < 170; last += 20) {
      // Found before anything is in it, then compressed before it is read; and compressed before it is found.
      files.write(last + 1, last + 10);
      rotate("app.log", "app.log.2");
      gzip("app.log.2");
      files.write(last + 11, last + 20);
      rotate("app.log", "app.log.1");
      gzip("app.log.1");
      files.write(1, 0);
      await found();
      await expectLines(last + 20);
      for (const name of ["app.log.1.gz", "app.log.2.gz"]) unlinkSync(files.log(name));
    }
    await expectNoMore(170);
  });

  it("by truncation without a copy: counts the bytes that it had seen and not stored", async () => {
    await begin();
    appendFileSync(files.log(), "no line end");
    await settle();
    truncateSync(files.log());
    files.write(51, 52);
    await expectLines(52);
    expect(files.queue.stats()).toMatchObject({ fileGaps: 1, fileGapBytes: "no line end".length });
    expect(files.source?.counters?.()).toMatchObject({ gaps: 1, gap_bytes: 11 });
  });
});

describe.skipIf(!canMount())(
  "K7: compressed files while the temporary space is full (needs root)",
  () => {
    /** Gives the collector temporary space of 4 KiB. Returns a function that enlarges it. */
    const fillTemporary = () => {
      const at = mkdtempSync(join(tmpdir(), "small-disk-"));
      const before = process.env.TMPDIR;
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=4k", "tmpfs", at]);
      process.env.TMPDIR = at;
      onTestFinished(() => {
        if (before === undefined) delete process.env.TMPDIR;
        else process.env.TMPDIR = before;
        execFileSync("umount", [at]);
        rmSync(at, { recursive: true });
      });
      return () => execFileSync("mount", ["-o", "remount,size=1m", at]);
    };

    it("rotated while the collector is stopped: waits until there is room, and counts no gap", async () => {
      await begin();
      const enlarge = fillTemporary();
      await files.restart({}, () => {
        files.write(51, 1000);
        rotate("app.log", "app.log.1");
        gzip("app.log.1");
        files.write(1001, 1010);
      });
      // The new file waits as well where it has the inode of the one that was compressed.
      await eventually(() => expect(files.source?.counters?.().failures).toBeGreaterThan(1));
      enlarge();
      await expectLines(1010);
      expect(files.queue.stats().fileGaps).toBe(0);
    });

    it("copied and truncated while it runs: waits until there is room, and counts no gap", async () => {
      await begin();
      const enlarge = fillTemporary();
      files.write(51, 1000);
      copyFileSync(files.log(), files.log("app.log.1"));
      gzip("app.log.1");
      truncateSync(files.log());
      await eventually(() => expect(files.source?.counters?.().failures).toBeGreaterThan(1));
      files.write(1001, 1010);
      enlarge();
      await expectLines(1010);
      expect(files.queue.stats().fileGaps).toBe(0);
    });
  },
);
