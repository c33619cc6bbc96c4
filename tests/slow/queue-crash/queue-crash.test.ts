import { describe, expect, it } from "vitest";
import { checkLife } from "./check.ts";
import { createDisk } from "./disk.ts";
import { canRecord, type Fsync, recordSeeds } from "./recording.ts";

const first = 1 + (Date.now() % 1_000_000);

const violations = async (fsync: Fsync, seeds: number) => {
  console.log(`queue crash model: fsync ${fsync}, seeds from ${first}`);
  const found = [];
  const lives = recordSeeds(first, seeds, fsync);
  for (const [seed, steps] of lives) found.push(...(await checkLife(seed, steps, 10)));
  expect(lives.size).toBe(seeds);
  return found;
};

describe.skipIf(!canRecord())("with strace, the collector's queue", () => {
  it("Q1, Q2: keeps every promise after a kill, and after a power cut that loses what was not synced", async () => {
    expect(await violations("works", 2)).toEqual([]);
  });

  it("Q4: keeps them when fsync fails with EIO: what failed once is never taken for durable", async () => {
    expect(await violations("fails", 2)).toEqual([]);
  });

  it("Q2: would not keep them if fsync did nothing, so the model can tell", async () => {
    expect((await violations("lies", 1)).length).toBeGreaterThan(0);
  });
});

describe("the disk of the model", () => {
  const written = (text: string, offset = 0) => ({
    does: "write" as const,
    path: "/d/f",
    offset,
    bytes: Buffer.from(text),
  });

  it("keeps what was synced, and of the rest what it is told to", () => {
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

  it("forgets a name that no sync of its directory made last, and what a failed sync was to keep", () => {
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
