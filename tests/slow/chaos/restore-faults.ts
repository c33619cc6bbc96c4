import { execFileSync } from "node:child_process";
import { rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "#kit/clock.ts";
import { type Fault, type Scene, seconds } from "./fault.ts";

/** The folder of another PostgreSQL than the embedded one, which has no tools. */
export const postgresBin = process.env.SVC_POSTGRES_BIN;

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
    inject: async ({ postgres, sql, cores, backupMs, discardDatabase }, draw) => {
      const since = await readHorizon(sql);
      await postgres.restart({
        whileStopped: async (dataDir) =>
          void execFileSync("cp", ["-Rp", dataDir, `${dataDir}-backup`]),
      });
      await systemClock.sleep(backupMs ?? seconds(draw, 1, 5));
      // As docs/backup.md has it: stop core, restore, start.
      await Promise.all(cores.map((core) => core.end()));
      await discardDatabase(since);
      await postgres.restart({
        whileStopped: async (dataDir) => {
          await rm(dataDir, { recursive: true });
          await rename(`${dataDir}-backup`, dataDir);
        },
      });
      await Promise.all(cores.map((core) => core.start()));
    },
  },
  ...(postgresBin !== undefined && {
    "restore a dump of the database": {
      id: "Q12",
      touches: ["postgres", "core"],
      // All that was stored since is adopted first.
      recoveryMs: { max: 60_000 },
      // The export's position is as old as the dump.
      repeats: Number.POSITIVE_INFINITY,
      inject: async (scene, draw) => {
        const { postgres, sql, cores, exporter, backupMs, discardDatabase, adoptExports } = scene;
        const since = await readHorizon(sql);
        const dump = join(tmpdir(), `chaos-${process.pid}.dump`);
        execFileSync(join(postgresBin, "pg_dump"), ["-Fc", "-f", dump, postgres.url()]);
        await systemClock.sleep(backupMs ?? seconds(draw, 1, 5));
        await Promise.all([...cores, exporter].map((program) => program.end()));
        await discardDatabase(since);
        const options = ["--exit-on-error", "--single-transaction", "--no-owner"];
        const psql = (text: string) =>
          execFileSync(join(postgresBin, "psql"), ["-qc", text, postgres.url("template1")]);
        psql("drop database postgres with (force)");
        psql("create database postgres template template0");
        execFileSync(join(postgresBin, "pg_restore"), [...options, "-d", postgres.url(), dump]);
        await rm(dump);
        await adoptExports();
        await Promise.all([...cores, exporter].map((program) => program.start()));
      },
    },
  }),
};

/** Returns the id that every transaction from now on has, or a lower one than its. */
const readHorizon = async (sql: Scene["sql"]): Promise<string> => {
  const [row] = await sql<
    { xid: string }[]
  >`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`;
  return row?.xid ?? "0";
};
