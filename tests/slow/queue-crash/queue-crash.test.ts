import { describe, expect, it } from "vitest";
import { checkRun } from "./check.ts";
import { createDisk } from "./disk.ts";
import { canRecord, type Fsync, recordSeeds } from "./recording.ts";

const first = 1 + (Date.now() % 1_000_000);

const violations = async (fsync: Fsync, seeds: number) => {
  console.log(`queue crash model: fsync ${fsync}, seeds from ${first}`);
  const found = [];
  const runs = recordSeeds(first, seeds, fsync);
  for (const [seed, steps] of runs) found.push(...(await checkRun(seed, steps, 10)));
  expect(runs.size).toBe(seeds);
  return found;
};

describe.skipIf(!canRecord())("with strace, the collector's queue", () => {
  it("Q1, Q2: keeps every guarantee after a kill, and after a power cut that loses unsynced writes", async () => {
    expect(await violations("works", 2)).toEqual([]);
  });

  it("Q4: keeps them when fsync fails with EIO, because a failed write never counts as durable", async () => {
    expect(await violations("fails", 2)).toEqual([]);
  });

  it("Q2: breaks them if fsync does nothing, so the model detects violations", async () => {
    expect((await violations("does nothing", 1)).length).toBeGreaterThan(0);
  });
});

describe("the model of the disk", () => {
  const written = (text: string, offset = 0) => ({
    does: "write" as const,
    path: "/d/f",
    offset,
    bytes: Buffer.from(text),
  });

  it("keeps synced writes, and of the rest those that are chosen", () => {
    const disk = createDisk();
    for (const does of ["create", "sync"] as const) disk.apply({ does, path: "/d/f" });
    disk.apply({ does: "sync", path: "/d" });
    disk.apply(written("old"));
    disk.apply({ does: "sync", path: "/d/f" });
    disk.apply(written("new and longer"));
    expect(disk.afterKill().get("/d/f")?.toString()).toBe("new and longer");
    expect(
      disk
        .afterPowerCut(() => false)
        .get("/d/f")
        ?.toString(),
    ).toBe("old");
    expect(
      disk
        .afterPowerCut(() => true)
        .get("/d/f")
        ?.toString(),
    ).toBe("new and longer");
  });

  it("loses a name whose directory was not synced, and the writes of a failed sync", () => {
    const disk = createDisk();
    disk.apply({ does: "create", path: "/d/f" });
    disk.apply(written("text"));
    disk.apply({ does: "failed-sync", path: "/d/f" });
    disk.apply({ does: "sync", path: "/d/f" });
    expect(disk.afterPowerCut(() => false).has("/d/f")).toBe(false);
    disk.apply({ does: "sync", path: "/d" });
    expect(disk.afterPowerCut(() => true).get("/d/f")?.length).toBe(0);
    expect(disk.afterKill().get("/d/f")?.toString()).toBe("text");
  });
});
