import { globSync, writeFileSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";

/** A clock that can be set wrong while its programs run. */
export interface WrongClock {
  /** The environment of its programs. */
  env: Readonly<Record<string, string>>;
  /** Sets it wrong by so much; its programs follow within a second. */
  shift(ms: number): void;
}

/** The clocks of the machine that runs core and of the one that runs PostgreSQL. */
export interface WrongClocks {
  core: WrongClock;
  postgres: WrongClock;
  remove(): Promise<void>;
}

/** Debian's package `faketime`: a program in C has no other way to another clock without root. */
const [library] = globSync("/usr/lib/*/faketime/libfaketime.so.1");

/** Whether the clock of PostgreSQL can be set wrong. */
export const hasFaketime = library !== undefined;

/** Creates clocks that are right. */
export const createWrongClocks = async () => {
  const { path: dir, remove } = await openTemporaryFolder("chaos-clocks");
  // PostgreSQL is another user.
  await chmod(dir, 0o755);
  const [core, postgres, preload] = ["core", "postgres", "preload.mjs"].map((name) =>
    join(dir, name),
  ) as [string, string, string];
  const setCore = (ms: number) => writeFileSync(core, `${ms}`);
  const setPostgres = (ms: number) => writeFileSync(postgres, `${ms < 0 ? "" : "+"}${ms / 1000}\n`);
  setCore(0);
  setPostgres(0);
  await writeFile(
    preload,
    `import { readFileSync } from "node:fs";
const { now } = Date;
let shift = 0;
const read = () => { shift = Number(readFileSync(${JSON.stringify(core)}, "utf8")); };
read();
setInterval(() => { try { read(); } catch {} }, 100).unref();
Date.now = () => now() + shift;
`,
  );
  const faketime = {
    LD_PRELOAD: library ?? "",
    FAKETIME_TIMESTAMP_FILE: postgres,
    FAKETIME_CACHE_DURATION: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
  };
  return {
    core: { env: { NODE_OPTIONS: `--import=${preload}` }, shift: setCore },
    postgres: { env: hasFaketime ? faketime : {}, shift: setPostgres },
    remove,
  };
};
