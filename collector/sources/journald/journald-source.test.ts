import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { beforeEach, describe, expect, it } from "vitest";
import { lines } from "#tests/collector/support/file-source.ts";
import { createTestJournal, cursorOf, exported } from "#tests/collector/support/journal.ts";
import { eventually } from "#tests/support/eventually.ts";

let journal: ReturnType<typeof createTestJournal>;

beforeEach(() => {
  journal = createTestJournal();
});

const expectTexts = (expected: readonly string[]) =>
  eventually(() => expect(journal.texts()).toEqual(expected));
const gaps = () => journal.queue.stats().fileGaps;

describe("entries", () => {
  it("become one record each, as they are written, and none twice by a restart", async () => {
    journal.write(1, 3, { _SYSTEMD_UNIT: "app.service" });
    await journal.start();
    await expectTexts(lines(1, 3));
    journal.write(4, 5);
    await expectTexts(lines(1, 5));
    await journal.stop();
    journal.write(6, 7);
    await journal.start();
    await expectTexts(lines(1, 7));
    expect(journal.records()[0]).toMatchObject({
      kind: "log_line",
      source: "journald",
      attributes: { "systemd.unit": "app.service" },
    });
    expect(gaps()).toBe(0);
  });

  it("that exist are passed over with start_at end, and those of a stop are not", async () => {
    journal.write(1, 3);
    const source = await journal.start({ startAt: "end" });
    await eventually(() => expect(journal.runs()).toHaveLength(2));
    await source.stop();
    journal.write(4, 5);
    await journal.start({ startAt: "end" });
    await expectTexts(lines(4, 5));
    expect(gaps()).toBe(0);
  });

  it("of a journal that was empty at the first start are read with start_at end", async () => {
    const source = await journal.start({ startAt: "end" });
    await eventually(() => expect(journal.runs()).toHaveLength(2));
    await source.stop();
    journal.write(1, 2);
    await journal.start({ startAt: "end" });
    await expectTexts(lines(1, 2));
  });

  it("are stored once when appends fail, when the collector crashes, and when journalctl dies", async () => {
    journal.write(1, 2_000);
    let failures = 3;
    const { append } = journal.queue;
    journal.storeBy((...call) =>
      failures-- > 0 ? Promise.reject(new Error("not now")) : append(...call),
    );
    await journal.start();
    await eventually(() => expect(journal.queue.stats().records).toBe(2_000));
    await journal.crash();
    journal.write(2_001, 2_100);
    writeFileSync(journal.file("die"), "40");
    await journal.start();
    await expectTexts(lines(1, 2_100));
    expect(gaps()).toBe(0);
  });

  it("that another selection did not want are not read again by a new one", async () => {
    journal.write(1, 3, { PRIORITY: "6" });
    journal.write(4, 4, { PRIORITY: "3" });
    await journal.start({ priority: "err" });
    await expectTexts(lines(4, 4));
    await journal.stop();
    journal.write(5, 6, { PRIORITY: "6" });
    await journal.start({ priority: "info" });
    await expectTexts(lines(4, 6));
    expect(gaps()).toBe(0);
  });

  it("wait in journalctl while the queue is full", async () => {
    const room = Promise.withResolvers<void>();
    let appends = 0;
    const { append } = journal.queue;
    journal.storeBy(async (...call) => {
      appends += 1;
      if (appends > 1) await room.promise;
      return append(...call);
    });
    journal.write(1, 20_000);
    await journal.start();
    await eventually(() => expect(appends).toBe(2));
    expect(journal.queue.stats().records).toBeLessThan(2_000);
    room.resolve();
    await eventually(() => expect(journal.queue.stats().records).toBe(20_000));
    expect(journal.texts()).toEqual(lines(1, 20_000));
  });
});

describe("losses", () => {
  it("of a vacuum between two runs are a gap with its entries and times, counted once", async () => {
    journal.write(1, 3);
    const source = await journal.start();
    await expectTexts(lines(1, 3));
    await source.stop();
    journal.vacuum();
    journal.write(11, 12);
    const next = await journal.start();
    await expectTexts([...lines(1, 3), ...lines(11, 12)]);
    await eventually(() => expect(next.counters?.()).toMatchObject({ gaps: 1, lost_entries: 7 }));
    expect(next.warnings?.()).toEqual([
      expect.objectContaining({
        code: "journal_gap",
        message: expect.stringContaining(
          "7 entries between 2026-09-21T14:13:20.003Z and 2026-09-21T14:13:20.011Z",
        ),
      }),
    ]);
    journal.skip(86_400_000);
    expect(next.warnings?.()).toEqual([]);
    await next.stop();
    await journal.start();
    journal.write(13, 13);
    await expectTexts([...lines(1, 3), ...lines(11, 13)]);
    expect(gaps()).toBe(1);
  });

  it("are none if all that a vacuum deleted was read, also what was not selected", async () => {
    journal.write(1, 1, { PRIORITY: "3" });
    journal.write(2, 9, { PRIORITY: "6" });
    const source = await journal.start({ priority: "err" });
    journal.write(10, 10, { PRIORITY: "3" });
    await expectTexts(["line 1", "line 10"]);
    await source.stop();
    journal.vacuum();
    journal.write(11, 11, { PRIORITY: "3" });
    await journal.start({ priority: "err" });
    await expectTexts(["line 1", ...lines(10, 11)]);
    expect(gaps()).toBe(0);
  });

  it("in the middle of a run, as of a damaged file, are found by the numbers of entries", async () => {
    journal.write(1, 2);
    journal.write(5, 6);
    const source = await journal.start();
    await expectTexts([...lines(1, 2), ...lines(5, 6)]);
    expect(source.counters?.()).toMatchObject({ gaps: 1, lost_entries: 2 });
    expect(gaps()).toBe(1);
  });

  it("that nobody can count are a gap of unknown size: another line of journal files", async () => {
    journal.write(1, 2);
    const source = await journal.start();
    await expectTexts(lines(1, 2));
    await source.stop();
    writeFileSync(
      journal.file("journal"),
      exported(7).replace(cursorOf(7), cursorOf(7, { line: "c3" })),
    );
    const next = await journal.start();
    await expectTexts([...lines(1, 2), "line 7"]);
    expect(next.counters?.()).toMatchObject({ gaps: 1, lost_entries: 0 });
    expect(next.warnings?.()[0]?.message).toContain("an unknown number of entries");
  });

  it("are none where journald moved the last entry to another file at the boot", async () => {
    journal.write(1, 2);
    const source = await journal.start();
    await expectTexts(lines(1, 2));
    await source.stop();
    writeFileSync(
      journal.file("journal"),
      [2, 3].map((number) => exported(number).replace("s=a1", "s=c3")).join(""),
    );
    await journal.start();
    await expectTexts(lines(1, 3));
    expect(gaps()).toBe(0);
  });

  it("are none where the same boot goes on in other files", async () => {
    journal.write(1, 3);
    const source = await journal.start();
    await expectTexts(lines(1, 3));
    const others = [14, 15].map((number) => exported(number).replace("s=a1", "s=c3")).join("");
    appendFileSync(journal.file("journal"), others);
    await expectTexts([...lines(1, 3), ...lines(14, 15)]);
    expect(journal.runs()).toHaveLength(2);
    expect(source.counters?.()).toMatchObject({ gaps: 0, failures: 0 });
  });

  it("of an entry that cannot be read to its end are counted as refused", async () => {
    const torn = exported(2).replace("MESSAGE=line 2", `${"x".repeat(300)}`);
    writeFileSync(journal.file("journal"), `${exported(1)}${torn}${exported(3)}`);
    const source = await journal.start();
    await expectTexts(["line 1", "line 3"]);
    expect(source.counters?.()).toMatchObject({ malformed: 1, gaps: 0 });
  });
});

describe("a journal that cannot be read", () => {
  it.each([
    [
      "No journal files were opened due to insufficient permissions.",
      /group systemd-journal or adm/,
    ],
    [
      "Hint: You are currently not seeing messages from other users and the system.",
      /group systemd-journal/,
    ],
    ["No journal files were found.", /has no journal files/],
    ["Failed to open files: Bad message", /ended with 1: Failed to open files: Bad message/],
  ])("is a condition, until it can be read: %s", async (fault, reason) => {
    writeFileSync(journal.file("fault"), `${fault}\n`);
    await expect(journal.start({}, false)).rejects.toThrow(reason);
    journal.write(1, 2);
    const source = await journal.start();
    await eventually(() =>
      expect(source.condition?.()).toMatchObject({
        code: "source_failed",
        reason: expect.stringMatching(reason),
      }),
    );
    rmSync(journal.file("fault"));
    await expectTexts(lines(1, 2));
    journal.skip(90_000);
    await eventually(() => expect(source.condition?.()).toBeUndefined());
  });

  it("is a condition where journalctl is not installed", async () => {
    rmSync(journal.file("journalctl"));
    const source = await journal.start();
    await eventually(() => expect(source.condition?.()?.reason).toContain("not installed"));
  });

  it("is tried again after a pause that doubles up to a minute", async () => {
    writeFileSync(journal.file("fault"), "Bad message\n");
    const pauses: number[] = [];
    journal.pauseBy(async (ms) => {
      pauses.push(ms);
    });
    await journal.start();
    await eventually(() => expect(pauses.length).toBeGreaterThan(7));
    expect(pauses.slice(0, 8)).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ]);
  });
});

it("a stop kills journalctl and waits for its end", async () => {
  journal.write(1, 1);
  const source = await journal.start();
  await expectTexts(lines(1, 1));
  const pid = journal.pid();
  process.kill(pid, 0);
  await source.stop();
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

it("asks journalctl for all boots and for the entry that it has, and not for a selection", async () => {
  journal.write(1, 1);
  const source = await journal.start({ units: ["app"] });
  await eventually(() => expect(journal.runs()).toHaveLength(1));
  await source.stop();
  await journal.start({ units: ["app"] });
  await eventually(() => expect(journal.runs()).toHaveLength(2));
  const options = `--output=export --follow --merge --no-tail`;
  const directory = `--directory=${journal.file(".")}`.replace(/\/\.$/, "");
  expect(journal.runs()).toEqual([
    `${options} ${directory}`,
    expect.stringMatching(`^${options} (--cursor=\\S+ )?${directory}$`),
  ]);
});
