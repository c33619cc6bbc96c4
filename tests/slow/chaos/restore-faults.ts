import { execFileSync } from "node:child_process";
import { rename, rm } from "node:fs/promises";
import { systemClock } from "#kit/clock.ts";
import { type Fault, type Scene, seconds } from "./fault.ts";

const copiedIndex = ({ copied }: Scene, draw: number) => Math.floor(draw * copied.length);
const copiedHost = (scene: Scene, draw: number) => {
  const host = scene.copied[copiedIndex(scene, draw)];
  if (host === undefined) throw new Error("no host is there to be copied");
  return host;
};

const ofCopy = {
  id: "Q11",
  recoveryMs: { max: 5_000 },
  pause: { of: "each", msMax: 5_000 },
  touches: ["copies"],
  concerned: (scene, draw) => scene.hostIds.length + copiedIndex(scene, draw),
} as const satisfies Partial<Fault>;

/** Faults after which two copies of one thing exist, or an older one: queues and core's database. */
export const restoreFaults: Readonly<Record<string, Fault>> = {
  "restore a copy of a queue": {
    ...ofCopy,
    inject: (scene, draw) => copiedHost(scene, draw).restore(seconds(draw, 1, 4), (draw * 97) % 1),
  },
  "run a copy of a queue": {
    ...ofCopy,
    inject: (scene, draw) => copiedHost(scene, draw).runCopy(seconds(draw, 1, 4)),
  },
  "restore the database from a backup": {
    id: "Q12",
    touches: ["postgres", "core"],
    recoveryMs: { max: 15_000 },
    // The server stops twice, for its backup and to go back: what is exported and not committed then is sent again both times.
    repeats: 2,
    inject: async ({ postgres, sql, cores, discardDatabase }, draw) => {
      const [row] = await sql<
        { xid: string }[]
      >`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`;
      await postgres.restart({
        whileStopped: async (dataDir) =>
          void execFileSync("cp", ["-Rp", dataDir, `${dataDir}-backup`]),
      });
      await systemClock.sleep(seconds(draw, 1, 5));
      // As docs/backup.md has it: stop core, restore, start.
      await Promise.all(cores.map((core) => core.end()));
      await discardDatabase(row?.xid ?? "0");
      await postgres.restart({
        whileStopped: async (dataDir) => {
          await rm(dataDir, { recursive: true });
          await rename(`${dataDir}-backup`, dataDir);
        },
      });
      await Promise.all(cores.map((core) => core.start()));
    },
  },
};
