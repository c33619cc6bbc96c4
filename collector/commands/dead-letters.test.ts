import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { execute } from "#scripts/execute.ts";
import { endedWith, runCollector } from "#tests/collector/support/collector-command.ts";
import { createEnrolledHost, type EnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { openTestQueue, testRecord } from "#tests/support/queue.ts";
import type { Queue } from "../queue/queue.ts";

const main = fileURLToPath(new URL("../main.ts", import.meta.url));

let host: EnrolledHost;
let queue: Queue;
beforeEach(async () => {
  host = await createEnrolledHost();
  queue = openTestQueue(join(host.dir, "data"));
});
afterEach(() => queue.close());

const deadLetters = (...more: string[]) =>
  runCollector(["dead-letters", "--config", host.config, ...more]);

const rejectTwo = async () => {
  await queue.append(["fine", "too long", "unknown"].map((text) => testRecord(text)));
  queue.moveToDeadLetters(2, "payload_too_large", "at most 4 bytes\u001b[0m");
  queue.moveToDeadLetters(3, "kind_invalid", "no such kind");
};

it("lists what core rejected, without payloads, while the collector runs", async () => {
  await rejectTwo();
  const { code, out, err } = await deadLetters();
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(
    /Z {2}2 {2}log_line {2}file {2}8 bytes {2}payload_too_large: at most 4 bytes\[0m\n/,
  );
  expect(out).toContain("2 dead letters are kept; 2 in all since the queue was created\n");
  expect(out).not.toContain("too long");
  const json = JSON.parse((await deadLetters("--json")).out);
  expect(json).toMatchObject({ ok: true, dead_letters_total: 2 });
  expect(json.dead_letters[1]).toEqual({
    queue_id: Buffer.from(queue.queueId).toString("hex"),
    sequence: 3,
    code: "kind_invalid",
    message: "no such kind",
    rejected_at: expect.stringMatching(/Z$/),
    observed_at: "2023-11-14T22:13:20.123Z",
    kind: "log_line",
    source: "file",
    attributes: { "file.path": "/var/log/ü.log", "file.offset": "7" },
    payload_bytes: 7,
  });
});

it("lists one whose attributes are damaged among the others, and says so", async () => {
  await rejectTwo();
  using database = new DatabaseSync(join(host.dir, "data", "queue.db"));
  database.exec(
    "UPDATE dead_letter SET attributes = replace(attributes, ':', ';') WHERE sequence = 2",
  );
  const { code, out } = await deadLetters();
  expect(code).toBe(0);
  expect(out).toMatch(
    /Z {2}2 .* 8 bytes, damaged attributes {2}payload_too_large.*\n.*Z {2}3 .* 7 bytes {2}kind_invalid/,
  );
  expect(JSON.parse((await deadLetters("--json")).out).dead_letters).toMatchObject([
    { sequence: 2, damaged: ["attributes"], attributes: expect.stringContaining('"file.path";') },
    { sequence: 3, attributes: { "file.offset": "7" } },
  ]);
});

it("exports them with their payloads to a new private file, and replaces none", async () => {
  await rejectTwo();
  const out = join(host.dir, "export.jsonl");
  expect((await deadLetters("--out", out)).out).toContain(`written to ${out}`);
  expect((await stat(out)).mode & 0o777).toBe(0o600);
  const text = await readFile(out, "utf8");
  const lines = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(
    lines.map(({ sequence, payload }) => [sequence, Buffer.from(payload, "base64").toString()]),
  ).toEqual([
    [2, "too long"],
    [3, "unknown"],
  ]);
  expect(await deadLetters("--out", out)).toMatchObject(endedWith(1, "exists and is kept"));
  expect(await readFile(out, "utf8")).toBe(text);
  expect(queue.stats()).toMatchObject({ records: 1, deadLetters: 2 });
});

it("fails when the disk has room for a part of an export alone", async () => {
  await rejectTwo();
  const out = join(host.dir, "export.jsonl");
  const args = [main, "dead-letters", "--config", host.config, "--out", out];
  const limited = execute("sh", ["-c", 'ulimit -f 1; exec "$@"', "sh", process.execPath, ...args]);
  await expect(limited).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("EFBIG"),
  });
});

it("lists none for a queue that does not exist yet", async () => {
  host = await createEnrolledHost();
  const out = "0 dead letters are kept; 0 in all since the queue was created\n";
  expect(await deadLetters()).toEqual({ code: 0, out, err: "" });
});
