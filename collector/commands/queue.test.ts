import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import { createEnrolledHost, type EnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { openTestQueue, readAll, testRecord } from "#tests/support/queue.ts";

const megabyte = 1_048_576;
let host: EnrolledHost;
let data: string;
let folder: string;
beforeEach(async () => {
  host = await createEnrolledHost();
  writeFileSync(
    host.config,
    host.configText.replace("{dir: data}", "{dir: data, max_disk_usage_mb: 1}"),
  );
  data = join(host.dir, "data");
  folder = join(data, "quarantine-1");
});

const runQueue = async (...words: string[]) => {
  const { code, out } = await runCollector(["queue", ...words, "--config", host.config, "--json"]);
  return { code, json: JSON.parse(out) };
};
const importQueue = (from = folder) => runQueue("import", from);
const refused = (code: number, error: string) => ({ code, json: { error: { code: error } } });

/** Stores 60 records of 10 kB each, and moves the database into a quarantine. */
const quarantine = async (change: (bytes: Buffer) => void = () => undefined) => {
  const queue = openTestQueue(data);
  for (let index = 0; index < 60; index++)
    await queue.append([testRecord(`record ${index} `, 10_000)]);
  await queue.close();
  mkdirSync(folder);
  const bytes = readFileSync(join(data, "queue.db"));
  change(bytes);
  renameSync(join(data, "queue.db"), join(folder, "queue.db"));
  writeFileSync(join(folder, "queue.db"), bytes);
  await openTestQueue(data).close();
};

const texts = async () => {
  const queue = openTestQueue(data);
  const found = readAll(queue).map(
    ({ payload }) => /^record \d+/.exec(new TextDecoder().decode(payload))?.[0] ?? "",
  );
  await queue.close();
  return found;
};
const all = Array.from({ length: 60 }, (_, index) => `record ${index}`);

describe("K6: queue import", () => {
  it("stores the records of a quarantined queue once, however often it runs", async () => {
    await quarantine();
    for (const [imported, before] of [
      [60, 0],
      [0, 60],
    ])
      expect(await importQueue()).toEqual({
        code: 0,
        json: { ok: true, imported, imported_before: before, expected: 60 },
      });
    expect(await texts()).toEqual(all);
  });

  it("brings back what lies before, between and behind pages that are damaged", async () => {
    await quarantine((bytes) => {
      for (const part of ["record 20 ", "record 21 ", "record 40 "]) {
        const page = Math.floor(bytes.indexOf(part) / 16_384) * 16_384;
        bytes.fill(0xaa, page, page + 16_384);
      }
    });
    const { code, json } = await importQueue();
    expect([code, json.expected]).toEqual([0, 60]);
    expect(json.imported).toBeGreaterThanOrEqual(50);
    const found = await texts();
    expect(found).toHaveLength(json.imported);
    expect(found).toEqual(all.filter((text) => found.includes(text)));
    expect(found).toEqual(expect.arrayContaining(["record 0", "record 30", "record 59"]));
  });

  it("stops at a full queue, and continues when there is room", async () => {
    await quarantine();
    const queue = openTestQueue(data);
    await queue.append([testRecord("before", 0.7 * megabyte)]);
    const last = queue.lastSequence;
    await queue.close();
    expect(await importQueue()).toMatchObject(refused(1, "queue_full"));
    const again = openTestQueue(data);
    const fitted = again.stats().records - 1;
    expect(fitted).toBeGreaterThan(0);
    await again.ack(last);
    await again.close();
    expect((await importQueue()).json).toMatchObject({
      imported: 60 - fitted,
      imported_before: fitted,
    });
    expect(await texts()).toEqual(all);
  });

  it("refuses while a collector runs, a directory without a queue, one that cannot be read, and wrong usage", async () => {
    await quarantine((bytes) => bytes.fill(0xaa));
    expect(await importQueue()).toMatchObject(refused(1, "no_queue"));
    expect(await importQueue(host.dir)).toMatchObject(refused(1, "no_queue"));
    for (const words of [[], ["import"], ["export", folder], ["import", folder, folder]])
      expect(await runQueue(...words)).toMatchObject(refused(2, "usage"));
    const running = openTestQueue(data);
    expect(await importQueue()).toMatchObject(refused(1, "queue_locked"));
    await running.close();
  });
});
