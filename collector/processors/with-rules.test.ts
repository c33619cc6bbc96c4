import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import { closeAccounts } from "#tests/collector/support/queue-accounts.ts";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createRuledSource } from "#tests/collector/support/ruled-source.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { readAll, testRecord } from "#tests/support/queue.ts";
import { batchLines } from "../queue/line-batch.ts";
import type { Queue } from "../queue/queue.ts";

const { dirOf, open } = setUpQueues(() => ({ clock: createTestClock() }));

const noDebug: ProcessorConfig = { name: "no-debug", drop: { severityBelow: "info" } };

/** Returns lines of a file as its source appends them. */
const linesOf = (...lines: readonly string[]) => {
  const bounds: number[] = [];
  let at = 0;
  for (const line of lines) {
    bounds.push(at, at + Buffer.byteLength(line));
    at += Buffer.byteLength(line) + 1;
  }
  const buffer = Buffer.from(lines.join("\n"));
  const file = { source: "file", path: "/var/log/app.log", observedAtMs: 7, offset: 100 };
  return batchLines({ ...file, buffer, bounds, partial: false });
};
const checkpoint = (value: string) => ({ source: "file", key: "app", value });
const read = (queue: Queue) =>
  readAll(queue).map(({ attributes, payload }) => [
    attributes["file.offset"],
    new TextDecoder().decode(payload),
  ]);
const filteredOf = (queue: Queue) =>
  closeAccounts(queue).flatMap(({ filtered }) =>
    filtered.map(({ rule, kind, source, records }) => [rule, kind, source, Number(records)]),
  );

it("stores what a rule leaves with the position, and counts what it took in the same transaction", async () => {
  const queue = open();
  const { append, source } = await createRuledSource(queue, [noDebug]);
  const lines = linesOf("level=debug a", "level=error b", "level=debug c");
  expect(await append(lines, { checkpoints: [checkpoint("1")] })).toBe("stored");
  expect(read(queue)).toEqual([["114", "level=error b"]]);
  expect(source.counters?.()).toEqual({ received: 3, filtered_by_no_debug: 2 });
  // A kill after the append has both.
  const copy = dirOf("killed");
  await cp(dirOf(), copy, { recursive: true });
  await rm(join(copy, "queue.lock"), { force: true });
  const killed = open({}, "killed");
  expect(killed.checkpoints("file").get("app")).toBe("1");
  expect(filteredOf(killed)).toEqual([["no-debug", "log_line", "file", 2]]);
});

it("stores the position of a batch of which a rule took everything, also while the queue is full", async () => {
  const queue = open({ maxDiskUsageBytes: 300 });
  const { append } = await createRuledSource(queue, [noDebug]);
  await append(linesOf("level=error fills the queue".padEnd(100)));
  await append(linesOf("level=debug a"), { checkpoints: [checkpoint("2")] });
  expect(queue.checkpoints("file").get("app")).toBe("2");
  expect(filteredOf(queue)).toEqual([["no-debug", "log_line", "file", 1]]);
});

it("counts nothing of an append that is not stored, which its source repeats", async () => {
  const queue = open({ maxDiskUsageBytes: 300 });
  const { append, source } = await createRuledSource(queue, [noDebug]);
  await append(linesOf("level=error fills the queue".padEnd(100)));
  const lines = linesOf("level=debug a", "level=error b".padEnd(100));
  const stop = new AbortController();
  const waiting = append(lines, { signal: stop.signal });
  stop.abort("no room");
  await expect(waiting).rejects.toThrow();
  expect(source.counters?.()).toEqual({ received: 3 });
  expect(filteredOf(queue)).toEqual([]);
});

it("redacts texts and attributes, sets attributes, and counts each changed record once", async () => {
  const queue = open();
  const { append, source } = await createRuledSource(queue, [
    { name: "mail", redact: { presets: ["email"], patterns: ["line \\d"] } },
    { name: "env", set: { env: "prod" } },
  ]);
  const records = ["line 1 of a@b.example", "é", ""].map((text) => testRecord(text));
  await append([...records, { ...testRecord("x"), attributes: { user: "a@b.example" } }]);
  const stored = readAll(queue).map(({ attributes, payload }) => [
    attributes.env,
    attributes.user,
    new TextDecoder().decode(payload),
  ]);
  expect(stored).toEqual([
    ["prod", undefined, "[redacted:mail] of [redacted:email]"],
    ["prod", undefined, "é"],
    ["prod", undefined, ""],
    ["prod", "[redacted:email]", "x"],
  ]);
  expect(source.counters?.()).toEqual({ received: 4, redacted_by_mail: 2 });
  const [{ redacted } = { redacted: [] }] = closeAccounts(queue);
  expect(redacted).toMatchObject([{ rule: "mail", kind: "log_line", source: "file", records: 2n }]);
});

it("redacts lines of a file in their places", async () => {
  const queue = open();
  const redact = { presets: ["email" as const], patterns: [] };
  const { append } = await createRuledSource(queue, [{ name: "mail", redact }, noDebug]);
  await append(linesOf("DEBUG a", "of a@b.example", "é", "to a@b.example"));
  expect(read(queue)).toEqual([
    ["108", "of [redacted:email]"],
    ["123", "é"],
    ["126", "to [redacted:email]"],
  ]);
});

it("leaves a batch as it is that no rule concerns", async () => {
  const queue = open();
  const { append } = await createRuledSource(queue, [noDebug]);
  await append(linesOf("level=error a", "no severity"));
  expect(read(queue)).toEqual([
    ["100", "level=error a"],
    ["114", "no severity"],
  ]);
  expect(filteredOf(queue)).toEqual([]);
});
