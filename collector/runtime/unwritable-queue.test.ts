import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRunningCollector } from "#tests/collector/support/running-collector.ts";
import { canMount } from "#tests/support/database/failing-reads.ts";
import { createOtlpSource } from "../sources/otlp/otlp-source.ts";

/** A collector whose queue is on a file system of its own, which can be full or read-only. */
const setUp = async () => {
  const collector = await createRunningCollector({
    sources: "[{type: otlp, http: {listen: '127.0.0.1:0'}}]",
  });
  const disk = join(collector.host.dir, "data");
  mkdirSync(disk, { mode: 0o700 });
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", disk]);
  onTestFinished(async () => {
    collector.end();
    await collector.stop().catch(() => undefined);
    execFileSync("umount", ["-l", disk]);
  });
  let address = "";
  const start = () =>
    collector.start((config, given) => {
      if (config.type !== "otlp") throw new Error("unexpected source");
      const source = createOtlpSource(config, given);
      return {
        ...source,
        start: async () => {
          await source.start();
          address = source.addresses.http ?? "";
        },
      };
    });
  const failures = {
    full: {
      reason: /full|no space/,
      begin: () => {
        for (const size of [65_536, 4096])
          try {
            for (let file = 0; ; file++)
              writeFileSync(join(disk, `ballast-${size}-${file}`), Buffer.alloc(size));
          } catch {}
      },
      end: () => execFileSync("sh", ["-c", 'rm -f "$0"/ballast-*', disk]),
    },
    "read-only": {
      reason: /read-?only/,
      begin: () => execFileSync("mount", ["-o", "remount,ro", disk]),
      end: () => execFileSync("mount", ["-o", "remount,rw", disk]),
    },
  };
  const send = async (text: string) => {
    const body = {
      resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { stringValue: text } }] }] }],
    };
    const headers = { "content-type": "application/json" };
    const response = await fetch(`http://${address}/v1/logs`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return response.status;
  };
  const newest = () => collector.heartbeats().at(-1)?.body;
  const stored = () => collector.peer.stored.length;
  return { collector, disk, start, failures, send, newest, stored };
};

describe.skipIf(!canMount())("W3: a disk that cannot be written (needs root)", () => {
  it.each(["full", "read-only"] as const)(
    "starts while it is %s: heartbeats say why, OTLP gets 503",
    async (kind) => {
      const { disk, start, failures, send, newest, stored, collector } = await setUp();
      const { reason, begin, end } = failures[kind];
      begin();
      const { done } = await start();
      await expect.poll(newest).toMatchObject({
        queue: { at_risk: true },
        conditions: [
          { code: "queue_unwritable", reason: expect.stringMatching(reason), path: disk },
        ],
      });
      await expect.poll(() => send("x")).toBe(503);
      end();
      await expect.poll(() => send("y")).toBe(200);
      await expect.poll(() => newest()?.conditions).toEqual([]);
      await expect.poll(stored).toBe(1);
      collector.end();
      await done;
    },
  );

  it("says so within a heartbeat while it runs, loses and doubles nothing, and stops", async () => {
    const { start, failures, send, newest, stored, collector } = await setUp();
    const { begin, end } = failures.full;
    const { done } = await start();
    await expect.poll(() => send("before")).toBe(200);
    begin();
    await expect.poll(() => send("x".repeat(100_000))).toBe(503);
    await expect
      .poll(newest)
      .toMatchObject({ queue: { at_risk: true }, conditions: [{ code: "queue_unwritable" }] });
    end();
    await expect.poll(() => send("after")).toBe(200);
    collector.clock.skip(90_000);
    await expect.poll(() => newest()?.conditions).toEqual([]);
    await expect.poll(stored).toBe(2);
    begin();
    await expect.poll(() => send("x".repeat(100_000))).toBe(503);
    collector.end();
    await done;
    expect(stored()).toBe(2);
  });
});
