import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, renameSync, rmSync, truncateSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A program that follows a log, and what happens to both. */
export interface Scene {
  /** Returns the path of `app.log`, or of one of its generations. */
  log(suffix?: string): string;
  /** Appends lines to `app.log`, or to one of its generations. */
  write(lines: number, suffix?: string): void;
  /** Appends a line that lacks its end. */
  writePartial(): void;
  start(): Promise<void>;
  stop(signal?: "SIGKILL"): Promise<void>;
  /** The sink closes all connections from now on, or no longer. */
  setRefusing(refusing: boolean): void;
  /** Resolves when so many lines have arrived, all unless given, or when none has for a while. */
  arrived(lines?: number): Promise<void>;
}

/** What happens to a log and to the program that follows it. */
export interface RotationHistory {
  readonly name: string;
  /** `app.log` unless given. */
  readonly pattern?: string;
  readonly run: (scene: Scene) => Promise<void>;
}

const generationLines = 3_000;
/** As many as logrotate keeps with `rotate 5`. */
const generationsKept = 5;

/** Gives each generation the next number; the oldest one is overwritten. */
const shift = ({ log }: Scene): void => {
  for (let old = generationsKept - 1; old >= 1; old--)
    if (existsSync(log(`.${old}`))) renameSync(log(`.${old}`), log(`.${old + 1}`));
};

/** As logrotate's `create`. */
const rename = (scene: Scene): void => {
  shift(scene);
  renameSync(scene.log(), scene.log(".1"));
  scene.write(0);
};

const copyAndTruncate = (scene: Scene): void => {
  shift(scene);
  copyFileSync(scene.log(), scene.log(".1"));
  truncateSync(scene.log());
};

/** Rotates so often, each time after a generation of lines, and writes one more. */
const rotate = async (
  scene: Scene,
  { times, by, pauseMs = 1_000 }: { times: number; by: typeof rename; pauseMs?: number },
): Promise<void> => {
  for (let round = 0; round < times; round++) {
    scene.write(generationLines);
    by(scene);
    await sleep(pauseMs);
  }
  scene.write(generationLines);
};

/** Begins with lines that have arrived. */
const begin = async (scene: Scene): Promise<void> => {
  scene.write(1_000);
  await scene.start();
  await scene.arrived();
};

const rotateRunning =
  (by: typeof rename): RotationHistory["run"] =>
  async (scene) => {
    await begin(scene);
    await rotate(scene, { times: 5, by });
  };

const rotateWhileFull =
  (by: typeof rename): RotationHistory["run"] =>
  async (scene) => {
    await begin(scene);
    scene.setRefusing(true);
    await rotate(scene, { times: 10, by });
    scene.setRefusing(false);
  };

/** Changes files while the program is stopped. */
const whileStopped =
  (change: (scene: Scene) => unknown): RotationHistory["run"] =>
  async (scene) => {
    await begin(scene);
    await scene.stop();
    await change(scene);
    await scene.start();
  };

/** The twelve histories, alike for all programs. */
export const histories: readonly RotationHistory[] = [
  { name: "rename, create", run: rotateRunning(rename) },
  { name: "rename ten times, sink down, buffer full", run: rotateWhileFull(rename) },
  { name: "copytruncate", run: rotateRunning(copyAndTruncate) },
  { name: "copytruncate ten times, sink down, buffer full", run: rotateWhileFull(copyAndTruncate) },
  {
    name: "stop, rename ten times, start",
    run: whileStopped((scene) => rotate(scene, { times: 10, by: rename, pauseMs: 0 })),
  },
  {
    name: "stop, rename, gzip, start",
    run: whileStopped(async (scene) => {
      await rotate(scene, { times: 1, by: rename, pauseMs: 0 });
      execFileSync("gzip", [scene.log(".1")]);
    }),
  },
  {
    name: "delete, create",
    run: async (scene) => {
      await begin(scene);
      await rotate(scene, { times: 1, by: ({ log }) => rmSync(log()), pauseMs: 0 });
    },
  },
  {
    name: "stop, copy to another inode, start",
    run: whileStopped((scene) => {
      cpSync(scene.log(), scene.log(".new"), { preserveTimestamps: true });
      renameSync(scene.log(".new"), scene.log());
      scene.write(generationLines);
    }),
  },
  {
    name: "rename, pattern matches old files, restart",
    pattern: "app.log*",
    run: async (scene) => {
      await rotateRunning(rename)(scene);
      await scene.arrived();
      await scene.stop();
      await scene.start();
    },
  },
  {
    name: "kill -9 while reading, rename, start",
    run: async (scene) => {
      scene.write(10 * generationLines);
      await scene.start();
      await scene.arrived(generationLines);
      await scene.stop("SIGKILL");
      rename(scene);
      scene.write(generationLines);
      await scene.start();
    },
  },
  {
    name: "rename, 3 s more to the old file",
    run: async (scene) => {
      await begin(scene);
      await rotate(scene, { times: 1, by: rename, pauseMs: 0 });
      for (let round = 0; round < 30; round++) {
        await sleep(100);
        scene.write(100, ".1");
      }
    },
  },
  {
    name: "a last line without its end, delete, create",
    run: async (scene) => {
      await begin(scene);
      scene.writePartial();
      await sleep(1_000);
      rmSync(scene.log());
      scene.write(generationLines);
    },
  },
];
