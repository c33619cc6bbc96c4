/**
 * The world of a simulation: virtual time, processes and chance. Invariants:
 * - Everything that runs is an event of one queue, in the order of virtual time; two of the same time run in the order in which they were
 *   planned. After each event all promises settle before the next one, so a seed always gives the same history.
 * - An event belongs to the process that planned it. Those of a killed process never run, those of a suspended one run when it resumes.
 * - Timers of the platform (`setTimeout`, `setImmediate`) are events too, also those of code that is not given a clock.
 * - The digest covers each note and the time and order of each event: two runs with one digest have taken the same course.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type BinaryLike, createHmac, hash } from "node:crypto";
import TinyQueue from "tinyqueue";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { createRandom } from "../fakes/entropy.ts";

/** A process of a machine. */
export interface Process {
  readonly name: string;
  isAlive: boolean;
  /** Virtual time until which it is suspended. */
  suspendedUntil: number;
  /** What its wall clock is off, in milliseconds. */
  clockOffsetMs: number;
  /** What it gains in a millisecond. */
  clockRate: number;
  /** Called when it is killed, as its peers learn that its connections have ended. */
  readonly onEnd: Set<() => void>;
}

/** Ends a process as SIGKILL does. */
export const endProcess = (process: Process): void => {
  process.isAlive = false;
  for (const notify of process.onEnd) notify();
  process.onEnd.clear();
};

/** A line of the history. */
export interface Note {
  at: number;
  text: string;
  /** What happens all the time: a story counts it. */
  isRoutine: boolean;
}

/** Draws from the seed. */
export interface Chance {
  /** A number in [0, 1). */
  fraction(): number;
  /** An integer from `min` to `max`, both included. */
  integer(min: number, max: number): number;
  /** True in `probability` of the cases. */
  isLikely(probability: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
}

/** See the invariants above. */
export interface World {
  readonly chance: Chance;
  readonly entropy: Entropy;
  /** Milliseconds since the beginning. */
  now(): number;
  process(name: string): Process;
  /** Runs `act` as part of a process: what it plans belongs to it. */
  as<Result>(process: Process, act: () => Result): Result;
  /** Plans an event of the current process. Returns what takes it back. */
  after(ms: number, act: () => void): () => void;
  /** Resolves after `ms`; of a process that was killed, never. */
  pause(ms: number): Promise<void>;
  /** The clock of a process, which follows its offset. */
  clockOf(process: Process): Clock;
  /** Moves all clocks forward, as where every machine slept. */
  leap(ms: number): void;
  /** Adds a line to the history. */
  note(text: string, options?: { isRoutine: boolean }): void;
  /** Runs `act` in the world, whose timers are events. */
  inside<Result>(act: () => Result): Result;
  isInside(): boolean;
  /** Runs events until `ms`, or until there are none. */
  runUntil(ms: number): Promise<void>;
  /** The history, and its digest. */
  history(): { notes: readonly Note[]; digest: string };
}

interface Event {
  at: number;
  order: number;
  process: Process;
  /** Undefined once it is taken back. */
  act: (() => void) | undefined;
}

/** The end of the hour in which a history begins, and how much of it is left: at least, and at most. */
const hourEndMs = Date.UTC(2026, 5, 1, 12);
const hourLeftMs = { min: 10_000, max: 80_000 };

/** Creates a world and runs `act` in it, with the platform's timers replaced by its own. */
export const inWorld = async <Result>(
  seed: number,
  act: (world: World) => Promise<Result>,
): Promise<Result> => {
  const platform = { setTimeout, clearTimeout, setImmediate, clearImmediate };
  const { any } = AbortSignal;
  // The queue of ticks runs once no promise is left to settle, sooner than a turn of the event loop.
  const settle = () => new Promise<void>((resolve) => process.nextTick(resolve));
  const world = createWorld(seed, settle);
  const planned = new WeakMap<object, () => void>();
  const plan = (ms: number, run: () => void) => {
    const handle = {
      ref: () => handle,
      unref: () => handle,
      hasRef: () => true,
      refresh: () => handle,
    };
    planned.set(handle, world.after(ms, run));
    return handle;
  };
  // Node keeps what listens to such a signal until one of its sources aborts: a process that was killed aborts none.
  const listening: (() => void)[] = [];
  const anyOf: typeof any = (signals) => {
    const signal = any.call(AbortSignal, signals);
    const listen = signal.addEventListener.bind(signal);
    signal.addEventListener = (...to: Parameters<typeof listen>) => {
      listen(...to);
      listening.push(() => signal.removeEventListener(to[0], to[1]));
    };
    return signal;
  };
  const cancel = (handle: NodeJS.Timeout & NodeJS.Immediate) => {
    const takeBack =
      typeof handle === "object" && handle !== null ? planned.get(handle) : undefined;
    if (takeBack) takeBack();
    else platform.clearTimeout(handle);
  };
  Object.assign(globalThis, {
    // What runs outside of the world, as a test before it may, keeps the platform's timers.
    setTimeout: (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
      world.isInside() ? plan(ms, () => run(...args)) : platform.setTimeout(run, ms, ...args),
    setImmediate: (run: (...args: unknown[]) => void, ...args: unknown[]) =>
      world.isInside() ? plan(0, () => run(...args)) : platform.setImmediate(run, ...args),
    clearTimeout: cancel,
    clearImmediate: cancel,
  });
  AbortSignal.any = anyOf;
  Object.assign(crypto.subtle, promptCryptography);
  try {
    return await world.inside(() => act(world));
  } finally {
    Object.assign(globalThis, platform);
    AbortSignal.any = any;
    for (const name of Object.keys(promptCryptography)) Reflect.deleteProperty(crypto.subtle, name);
    for (const stopListening of listening) stopListening();
    // A turn of the event loop, in which V8 cleans up after what is gone: a history has none.
    await new Promise<void>((resolve) => platform.setImmediate(resolve));
  }
};

const bytesOnly = (bytes: Uint8Array) => Uint8Array.from(bytes).buffer;

/** What signs requests to a bucket, without the thread pool: what that answers has no place in virtual time. */
const promptCryptography = {
  digest: async (_: string, data: Uint8Array) => bytesOnly(hash("sha256", data, "buffer")),
  importKey: async (_: string, key: BinaryLike) => key,
  sign: async (_: string, key: BinaryLike, data: Uint8Array) =>
    bytesOnly(createHmac("sha256", key).update(data).digest()),
};

const newProcess = (name: string): Process => ({
  name,
  isAlive: true,
  suspendedUntil: 0,
  clockOffsetMs: 0,
  clockRate: 0,
  onEnd: new Set(),
});

const createWorld = (seed: number, settle: () => Promise<void>): World => {
  const outside: Process = newProcess("world");
  const current = new AsyncLocalStorage<Process>();
  /** Enters a process; made once for each, since a context is copied for each `run`. */
  const entries = new WeakMap<Process, ReturnType<typeof AsyncLocalStorage.snapshot>>();
  const enter = <Result>(process: Process, act: () => Result): Result => {
    let entry = entries.get(process);
    if (entry === undefined) {
      entry = current.run(process, () => AsyncLocalStorage.snapshot());
      entries.set(process, entry);
    }
    return entry(act);
  };
  const events = new TinyQueue<Event>([], (a, b) => a.at - b.at || a.order - b.order);
  const random = createRandom(seed);
  let epochMs =
    hourEndMs - createChance(createRandom(~seed)).integer(hourLeftMs.min, hourLeftMs.max);
  const notes: Note[] = [];
  /** The text that the digest covers. */
  let told = "";
  let time = 0;
  let planned = 0;
  /** Of the events so far. */
  let course = 0;

  const after: World["after"] = (ms, act) => {
    const event: Event = {
      at: time + Math.max(0, ms),
      order: planned++,
      process: current.getStore() ?? outside,
      act,
    };
    events.push(event);
    return () => {
      event.act = undefined;
    };
  };

  return {
    chance: createChance(random),
    entropy: { bytes: (length) => Uint8Array.from({ length }, () => random() >>> 24) },
    now: () => time,
    process: newProcess,
    as: enter,
    after,
    pause: (ms) => new Promise((resolve) => after(ms, resolve)),
    clockOf: (process) => ({
      now: () => Math.floor(epochMs + time * (1 + process.clockRate) + process.clockOffsetMs),
      monotonic: () => time,
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          if (signal?.aborted) return reject(signal.reason);
          const stop = () => {
            cancel();
            reject(signal?.reason);
          };
          const cancel = after(ms, () => {
            signal?.removeEventListener("abort", stop);
            resolve();
          });
          signal?.addEventListener("abort", stop, { once: true });
        }),
    }),
    leap: (ms) => {
      epochMs += ms;
    },
    note: (text, { isRoutine } = { isRoutine: false }) => {
      notes.push({ at: time, text, isRoutine });
      told += `${course} ${text}\n`;
    },
    inside: (act) => enter(outside, act),
    isInside: () => current.getStore() !== undefined,
    async runUntil(ms) {
      await settle();
      for (
        let event = events.peek();
        event !== undefined && event.at <= ms;
        event = events.peek()
      ) {
        events.pop();
        const { process, act } = event;
        if (!process.isAlive || act === undefined) continue;
        if (process.suspendedUntil > event.at) {
          events.push(Object.assign(event, { at: process.suspendedUntil, order: planned++ }));
          continue;
        }
        time = event.at;
        course = (Math.imul(course ^ event.order, 0x21f0aaad) ^ Math.floor(time * 1000)) >>> 0;
        enter(process, act);
        await settle();
      }
      time = Math.max(time, ms);
    },
    history: () => ({ notes, digest: hash("sha256", `${told}${course}`).slice(0, 16) }),
  };
};

/** Creates what draws from a source of unsigned 32-bit integers. */
export const createChance = (random: () => number): Chance => {
  const fraction = () => random() / 0x1_0000_0000;
  return {
    fraction,
    integer: (min, max) => min + Math.floor(fraction() * (max - min + 1)),
    isLikely: (probability) => fraction() < probability,
    pick: (items) => {
      if (items.length === 0) throw new Error("nothing to pick from");
      return items[Math.floor(fraction() * items.length)] as (typeof items)[number];
    },
  };
};
