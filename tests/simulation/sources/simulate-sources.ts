/*
 * Histories of rotations for the `file` source, on a virtual clock: a writer, a rotation by one of its usual ways, a queue that is full at times,
 * a mount that hangs, stops, kills and clocks that are set. Laws:
 * - No line is stored twice.
 * - Each line that was written is stored, or told: in the gap of known bytes that is at least as large, or in one of unknown size.
 * - Without a fault that can lose, nothing is told.
 */
import { QueueClosedError } from "#collector/queue/errors.ts";
import { sumFileGaps } from "#collector/queue/file-gaps.ts";
import type { Queue } from "#collector/queue/queue.ts";
import { createFileSource } from "#collector/sources/file/file-source.ts";
import type { Source } from "#collector/sources/source.ts";
import type { Log } from "#kit/log.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { decodeRecords, encodeBlock } from "#tests/support/queue.ts";
import { createLogDisk, type Inode, logFolder } from "./log-disk.ts";

/** How a history of sources ended. */
export interface SourceOutcome {
  readonly seed: number;
  readonly written: number;
  readonly stored: number;
  readonly gaps: number;
  readonly breaches: readonly string[];
  readonly story: readonly string[];
}

/** What a source is created from. */
export type SourceParts = Parameters<typeof createFileSource>;

/** A mistake that is planted in what the source works with. */
export type SourcePlant = (parts: SourceParts) => SourceParts;

/** Returns a generator of numbers below 1 (mulberry32). */
const createRandom = (seed: number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

/** A queue that keeps records and checkpoints in memory, is full when told, and forgets what was not stored when it is killed. */
const createModelQueue = (onStored: (texts: readonly string[]) => void) => {
  const checkpoints = new Map<string, Map<string, string>>();
  const texts: string[] = [];
  let waiting: (() => void)[] = [];
  let isFull = false;
  const of = (source: string) => {
    const found = checkpoints.get(source) ?? new Map<string, string>();
    checkpoints.set(source, found);
    return found;
  };
  const connect = () => {
    let isDead = false;
    const append: Queue["append"] = async (records, { checkpoints: saved = [], signal } = {}) => {
      const batch = "count" in records ? records : undefined;
      const hasRecords = (batch?.count ?? 0) > 0;
      while (isFull && hasRecords && !isDead) {
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        waiting.push(resolve);
        signal?.addEventListener("abort", () => reject(new QueueClosedError()), { once: true });
        await promise;
      }
      await new Promise(setImmediate);
      if (isDead) await new Promise(() => undefined);
      if (batch && hasRecords) {
        const stored = decodeRecords(encodeBlock(batch, 1).envelopes).map(({ payload }) =>
          new TextDecoder().decode(payload),
        );
        texts.push(...stored);
        onStored(stored);
      }
      for (const { source, key, value } of saved)
        if (value === null) of(source).delete(key);
        else of(source).set(key, value);
      return "stored";
    };
    return {
      append,
      checkpoints: (source: string) => new Map(of(source)),
      kill: () => {
        isDead = true;
      },
    };
  };
  return {
    texts,
    connect,
    fill: () => {
      isFull = true;
    },
    drain: () => {
      isFull = false;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    isFull: () => isFull,
    gaps: () => sumFileGaps(of("file.gap")),
    saved: of,
  };
};

const stepMs = 500;
const turnsPerStep = 40;

/** Simulates one history. */
export const simulateSources = async (
  seed: number,
  plant?: SourcePlant,
): Promise<SourceOutcome> => {
  const random = createRandom(seed);
  const chance = (of: number) => random() < of;
  const between = (least: number, most: number) =>
    least + Math.floor(random() * (most - least + 1));
  const clock = createTestClock();
  const disk = createLogDisk(clock, createRandom(seed + 1_000_000));
  const story: string[] = [];
  const note = (text: string) => story.push(`${(clock.monotonic() / 1000).toFixed(1)} s: ${text}`);
  const queue = createModelQueue((texts) =>
    note(`  stored ${texts[0]?.slice(0, 9)} to ${texts.at(-1)?.slice(0, 9)}`),
  );
  const kept = between(3, 6);
  const style = chance(0.5) ? "rename" : "copytruncate";
  const compresses = chance(0.5);
  const banner = chance(0.3)
    ? `${"# the same first line of each file ".repeat(between(1, 40))}\n`
    : "";
  const pattern = chance(0.25) ? "app.log*" : "*.log";
  const written: string[] = [];
  const bytesOf = new Map<string, number>();
  let lines = 0;
  let source: Source | undefined;
  let running: { end(): void; kill(): void } | undefined;
  /** The inode that the application writes to. */
  let target: Inode | undefined;
  let canLose = false;

  /** Lets time pass in steps, between which everything that is due has its turns. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= stepMs) {
      for (let turn = 0; turn < turnsPerStep; turn++) await new Promise(setImmediate);
      await clock.advance(Math.min(left, stepMs));
    }
  };

  const say = (fields: Readonly<Record<string, unknown>>, message: string) =>
    note(`  ${message} ${JSON.stringify({ ...fields, err: fields.err && String(fields.err) })}`);
  const noting: Log = { debug: say, info: say, warn: say, error: say };

  const start = async () => {
    const { files, end } = disk.mount();
    const { append, checkpoints, kill } = queue.connect();
    const parts: SourceParts = [
      {
        include: [`${logFolder}/${pattern}`],
        exclude: [],
        startAt: "beginning",
        rules: { neverRead: [] },
      },
      { append, checkpoints, files, clock, log: noting, refused: () => undefined },
    ];
    source = createFileSource(...(plant?.(parts) ?? parts));
    running = { end, kill };
    note("the collector starts");
    const started = source.start().catch((error: unknown) => note(`the start failed: ${error}`));
    await pass(100);
    void started;
  };

  const stop = async () => {
    note("the collector stops");
    const stopped = source?.stop();
    await pass(5_000);
    void stopped;
    running?.kill();
    running?.end();
    source = undefined;
  };

  const kill = () => {
    note("the collector is killed");
    running?.kill();
    running?.end();
    source = undefined;
  };

  const newFile = () => {
    // A file of nothing else cannot be told from the beginning of another one: the line is not judged.
    if (target) disk.release(target);
    target = disk.create("app.log", Buffer.from(banner));
    disk.keep(target);
  };

  const write = () => {
    if (target === undefined) newFile();
    const count = between(1, 30);
    for (let line = 0; line < count; line++) {
      const text = `line ${++lines} ${"x".repeat(between(0, 90))}`;
      written.push(text);
      bytesOf.set(text, text.length + 1);
      if (target) disk.write(target, `${text}\n`);
    }
    note(`wrote to line ${lines}`);
  };

  const shift = () => {
    const nameOf = (generation: number) =>
      [`app.log.${generation}`, `app.log.${generation}.gz`].find(disk.has);
    const last = nameOf(kept);
    if (last) disk.remove(last);
    for (let generation = kept - 1; generation >= 1; generation--) {
      const name = nameOf(generation);
      if (name) disk.rename(name, name.replace(`.log.${generation}`, `.log.${generation + 1}`));
    }
  };

  const compress = (name: string) => {
    const inode = disk.inode(name);
    if (inode === undefined || inode === target || disk.has(`${name}.gz`)) return;
    const packed = disk.create(`${name}.gz`);
    packed.packed = inode.data;
    packed.mtimeMs = inode.mtimeMs;
    disk.remove(name);
    note(`compressed ${name}`);
  };

  const rotate = async () => {
    if (!disk.has("app.log")) return;
    shift();
    if (style === "rename") {
      disk.rename("app.log", "app.log.1");
      note("rotated by rename");
      // The application writes on to the old file for a while.
      if (chance(0.3)) {
        await pass(between(0, 1_500));
        write();
      }
      newFile();
    } else {
      const inode = disk.inode("app.log");
      if (inode === undefined) return;
      disk.create("app.log.1", Buffer.from(inode.data));
      if (chance(0.2)) await pass(between(0, 1_500));
      // What was written since the copy is lost by the rotation itself.
      if (inode.data.length > (disk.inode("app.log.1")?.data.length ?? 0)) canLose = true;
      disk.truncate(inode);
      note("rotated by copy and truncate");
    }
    if (compresses) compress("app.log.2");
  };

  const act = async () => {
    const roll = random();
    if (roll < 0.45) write();
    else if (roll < 0.7) await rotate();
    else if (roll < 0.75) {
      note("the queue is full");
      queue.fill();
    } else if (roll < 0.8) queue.drain();
    else if (roll < 0.83) {
      note("the mount hangs");
      disk.hang();
    } else if (roll < 0.87) disk.answer();
    else if (roll < 0.9 && source) await stop();
    else if (roll < 0.92 && source) kill();
    else if (roll < 0.97 && !source) await start();
    else if (roll < 0.98) clock.set(clock.now() + between(-7_200_000, 7_200_000));
    else if (!source) {
      note("remounted: other device number");
      disk.remount();
    }
  };

  await start();
  // Files that nobody has looked for yet may be gone unseen.
  await pass(1_000);
  const steps = between(10, 80);
  for (let step = 0; step < steps; step++) {
    await act();
    await pass(between(400, chance(0.1) ? 20_000 : 3_000));
  }
  disk.answer();
  queue.drain();
  await pass(15_000);
  if (!source) await start();
  await pass(700_000);
  note("the end");
  const breaches = judge({
    written,
    stored: queue.texts.filter((text) => !text.startsWith("#")),
    bytesOf,
    gaps: queue.gaps(),
    canLose,
  });
  if (
    queue
      .saved("file")
      .entries()
      .some(([key]) => key.startsWith("cut:"))
  )
    breaches.push("a truncated file is still waited for");
  const { gaps } = queue.gaps();
  await stop();
  return { seed, written: written.length, stored: queue.texts.length, gaps, breaches, story };
};

/** Returns the laws that a history broke. */
const judge = ({
  written,
  stored,
  bytesOf,
  gaps,
}: {
  written: readonly string[];
  stored: readonly string[];
  bytesOf: ReadonlyMap<string, number>;
  gaps: { gaps: number; bytes: number; unknown: number };
  canLose: boolean;
}): string[] => {
  const counts = new Map<string, number>();
  for (const text of written) counts.set(text, (counts.get(text) ?? 0) + 1);
  const twice: string[] = [];
  for (const text of stored) {
    const left = counts.get(text) ?? 0;
    if (left === 0) twice.push(text);
    counts.set(text, left - 1);
  }
  const missing = [...counts].filter(([, left]) => left > 0);
  const missingBytes = missing.reduce(
    (sum, [text, left]) => sum + left * (bytesOf.get(text) ?? 0),
    0,
  );
  const breaches: string[] = [];
  if (twice.length > 0)
    breaches.push(`stored twice: ${twice.slice(0, 3).join(", ")} (${twice.length})`);
  if (missing.length > 0 && gaps.unknown === 0 && gaps.bytes < missingBytes)
    breaches.push(
      `lost and not told: ${missing
        .map(([text]) => text.slice(0, 12))
        .slice(0, 5)
        .join(", ")} (${missing.length})`,
    );
  return breaches;
};
