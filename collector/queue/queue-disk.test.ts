import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { closeAccounts } from "#tests/collector/support/queue-accounts.ts";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { canMount, hasStrace } from "#tests/support/database/failing-reads.ts";
import {
  addTexts,
  openTestQueue,
  readAll,
  testRecord as record,
  textsOf,
} from "#tests/support/queue.ts";
import type { Queue, QueueOptions } from "./queue.ts";

const texts = (queue: Queue) => textsOf(readAll(queue));

/** Expects two records to be dropped and counted while the disk takes nothing, and the others to be kept. */
const dropsNewest = async (
  open: (options?: Partial<QueueOptions>) => Queue,
  breakDisk: () => unknown,
  mendDisk: () => unknown,
) => {
  const queue = open({ dropNewestOnFull: true });
  await addTexts(queue, "before");
  await breakDisk();
  expect(await queue.append([record("a", 100_000), record("b", 100_000)])).toBe("dropped");
  expect(queue.stats().droppedRecordsTotal).toBe(2);
  await mendDisk();
  expect(await addTexts(queue, "after")).toBe("stored");
  await queue.close();
  const again = open();
  expect([texts(again), again.stats().droppedRecordsTotal]).toEqual([["before", "after"], 2]);
};

describe.skipIf(!canMount())("on a small file system (needs root)", () => {
  let disk: string;
  const opened: Queue[] = [];
  const open = (options: Partial<QueueOptions> = {}) => {
    const queue = openTestQueue(join(disk, "queue"), options);
    opened.push(queue);
    return queue;
  };
  beforeEach(() => {
    disk = mkdtempSync(join(tmpdir(), "queue-disk-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  });
  afterEach(async () => {
    for (const queue of opened.splice(0)) await queue.close().catch(() => undefined);
    execFileSync("umount", [disk]);
    rmSync(disk, { recursive: true });
  });
  const fillDisk = () => {
    for (let size = 65_536; size >= 512; size /= 2)
      for (let file = 0; ; file++)
        try {
          writeFileSync(join(disk, `ballast-${size}-${file}`), Buffer.alloc(size));
        } catch {
          break;
        }
  };
  const emptyDisk = () => {
    for (const name of readdirSync(disk))
      if (name.startsWith("ballast")) unlinkSync(join(disk, name));
  };
  /** Appends what still fits into the log. */
  const fillLog = async (queue: Queue) => {
    for (let isFull = false; !isFull; )
      isFull = await addTexts(queue, "filler").then(
        () => false,
        () => true,
      );
  };
  const readOnly = (on: boolean) =>
    execFileSync("mount", ["-o", `remount,${on ? "ro" : "rw"}`, disk]);

  it("Q3: rejects appends while the disk is full, keeps the stored records, and stores again when there is room", async () => {
    const queue = open();
    await addTexts(queue, "before");
    fillDisk();
    await expect(queue.append([record("meanwhile", 100_000)])).rejects.toThrow(/full/);
    expect([texts(queue), queue.stats().droppedRecordsTotal]).toEqual([["before"], 0]);
    emptyDisk();
    await addTexts(queue, "after");
    await queue.close();
    expect(texts(open())).toEqual(["before", "after"]);
  });

  it("Q3: rejects what waited for the room of others too, and nothing is left waiting when there is room", async () => {
    const queue = open({ maxDiskUsageBytes: 150_000 });
    await addTexts(queue, "before");
    fillDisk();
    const appends = [
      queue.append([record("meanwhile", 100_000)]),
      queue.append([record("waits", 100_000)]),
    ];
    expect((await Promise.allSettled(appends)).map(({ status }) => status)).toEqual([
      "rejected",
      "rejected",
    ]);
    emptyDisk();
    await addTexts(queue, "after");
    expect(texts(queue)).toEqual(["before", "after"]);
  });

  it("Q3: states how long a full disk kept records waiting", async () => {
    const clock = createTestClock();
    const queue = open({ clock });
    await addTexts(queue, "before");
    fillDisk();
    await expect(queue.append([record("meanwhile", 100_000)])).rejects.toThrow(/full/);
    await clock.advance(60_000);
    emptyDisk();
    await addTexts(queue, "after");
    await clock.advance(60_000);
    expect(closeAccounts(queue)).toMatchObject([
      { waitedMs: 60_000n, accepted: [{ records: 2n }] },
    ]);
  });

  it("Q3: drops and counts on a full disk with drop_newest_on_full, and stores the count later", async () => {
    await dropsNewest(open, fillDisk, emptyDisk);
  });

  it("Q11: cannot fork while the disk is full, keeps everything, and forks once there is room", async () => {
    const queue = open();
    await addTexts(queue, "acknowledged", "sent", "unsent");
    const before = queue.beginSession("spiffe://fleet.test/host-1");
    queue.sessionAnswered();
    queue.markSent(2);
    // It fails with the first append on the full disk; the forwarder ignores that.
    const acknowledged = queue.ack(1, { lingerMs: 60_000 }).catch(() => undefined);
    fillDisk();
    await fillLog(queue);
    const kept = texts(queue).slice(1);
    expect(() => queue.fork()).toThrow(/full/);
    // A database that went back may take it for the one that continues.
    expect(() => queue.beginSession("spiffe://fleet.test/host-1")).toThrow(/full/);
    expect([queue.queueId, texts(queue).slice(-kept.length), queue.stats().forks]).toEqual([
      before.queueId,
      kept,
      0,
    ]);
    emptyDisk();
    const after = queue.beginSession("spiffe://fleet.test/host-1");
    expect(after.queueId).not.toEqual(before.queueId);
    await acknowledged;
    expect(after).toMatchObject({ previousSessionIds: [], ackedThrough: 0, sentThrough: 0 });
    await queue.close();
    const again = open();
    expect([again.queueId, texts(again), again.stats().forks]).toEqual([after.queueId, kept, 1]);
  });

  it("Q11: begins sessions of its own on a full disk, states those before, and stores them once there is room", async () => {
    const host = "spiffe://fleet.test/host-1";
    const queue = open();
    await addTexts(queue, "acknowledged", "before");
    const before = queue.beginSession(host);
    fillDisk();
    await fillLog(queue);
    const acknowledged = queue.ack(1).catch(() => undefined);
    // Forwarding must continue: only acknowledgements may free space.
    const full = queue.beginSession(host);
    queue.sessionAnswered();
    await acknowledged;
    const fullAgain = queue.beginSession(host);
    expect(new Set([before, full, fullAgain].map(({ sessionId }) => sessionId.toHex())).size).toBe(
      3,
    );
    expect(fullAgain).toMatchObject({
      previousSessionIds: [before.sessionId, full.sessionId],
      ackedThrough: 1,
    });
    emptyDisk();
    const after = queue.beginSession(host);
    expect(after.previousSessionIds).toEqual([
      before.sessionId,
      full.sessionId,
      fullAgain.sessionId,
    ]);
    await queue.close();
    expect(open().beginSession(host).previousSessionIds).toEqual([
      ...after.previousSessionIds,
      after.sessionId,
    ]);
  });

  it("Q3: does not start on a read-only disk, names the reason, and starts when the disk is writable again", async () => {
    const queue = open();
    await addTexts(queue, "before");
    await queue.close();
    readOnly(true);
    expect(() => open()).toThrow("EROFS: read-only file system");
    readOnly(false);
    expect(texts(open())).toEqual(["before"]);
  });
});

/** Makes `pwrite64`, with which SQLite writes, fail in this process until the returned strace is killed. */
const startFailingWrites = async () => {
  const inject = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EROFS"];
  const strace = spawn("strace", ["-f", "-o", "/dev/null", ...inject, "-p", `${process.pid}`], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  await once(strace.stderr, "data");
  return strace;
};

describe.skipIf(!hasStrace())("on a disk that turns read-only (needs strace)", () => {
  const { open } = setUpQueues();
  let failing: ChildProcess | undefined;
  const turnReadOnly = async () => {
    failing = await startFailingWrites();
  };
  const turnBack = async () => {
    if (failing === undefined) return;
    const ended = once(failing, "exit");
    failing.kill();
    failing = undefined;
    await ended;
  };
  afterEach(turnBack);

  it("Q3: rejects appends and acks while the disk is read-only, loses nothing, and continues afterwards", async () => {
    const queue = open({ maxRecordAgeSeconds: 1_000 });
    await addTexts(queue, "before", "sent");
    await turnReadOnly();
    await expect(addTexts(queue, "meanwhile")).rejects.toThrow("disk I/O error");
    await expect(queue.ack(1)).rejects.toThrow("disk I/O error");
    expect([texts(queue), queue.stats().records, queue.stats().droppedRecordsTotal]).toEqual([
      ["before", "sent"],
      2,
      0,
    ]);
    await turnBack();
    await addTexts(queue, "after");
    await queue.ack(1);
    await queue.close();
    expect(texts(open())).toEqual(["sent", "after"]);
  });

  it("Q3: drops and counts the newest while the disk is read-only, with drop_newest_on_full", async () => {
    await dropsNewest(open, turnReadOnly, turnBack);
  });

  it("Q3: defers expiry while the disk is read-only, and keeps serving reads", async () => {
    const clock = createTestClock();
    const queue = open({ clock, maxRecordAgeSeconds: 100 });
    await addTexts(queue, "old");
    await clock.advance(60_000);
    await addTexts(queue, "young");
    await turnReadOnly();
    await clock.advance(60_000);
    expect(texts(queue)).toEqual(["old", "young"]);
    expect(queue.stats()).toMatchObject({ records: 2, droppedRecordsTotal: 0 });
    await turnBack();
    await clock.advance(2_000);
    expect(queue.stats()).toMatchObject({ records: 1, droppedRecordsTotal: 1 });
  });
});
