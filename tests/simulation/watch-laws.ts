/**
 * Judges a history while it runs. Its laws:
 * 1. Memory and disk are bounded: a core's frames and a host's queue never exceed their limits.
 * 2. Health is told within its time: a collector that cannot send or receive reports that it is not connected; one that can speak to
 *    a core that runs is connected; a queue that is nearly full, or that has lost something, says so.
 * 3. Totals only grow: of what a queue has dropped, and of its dead letters, unless its disk went back.
 * 4. Telemetry waits for no account longer than documented: a host that is connected to cores that are well sends what it has.
 */
import { inFlightBytesMax, type SimulatedCore } from "./core.ts";
import type { SimulatedHost } from "./host.ts";
import type { Breach } from "./oracle.ts";
import type { Process, World } from "./world.ts";

/** Laws that were broken so far. */
export interface Watch {
  breaches(): Breach[];
}

const everyMs = 1_000;
/** A ping and its answer, with the time until the next one is sent. */
const silenceMs = 85_000;
/** A call that began while nothing arrived, the longest backoff, and the first answer. */
const connectMs = 80_000;
/** How long a host that was held by its budget waits before it tries again. */
const budgetPauseMs = 60_000;
const atRiskPercent = 80;
/** Longer than two accounts that core does not answer, one stream after the other, and than a commit is tried. */
const stuckMs = 40_000;

/** Begins to watch. */
export const watchLaws = (
  world: World,
  {
    hosts,
    cores,
    isCalm,
    revoked,
  }: {
    hosts: readonly SimulatedHost[];
    cores: readonly SimulatedCore[];
    /** Reports whether the database answers as usual. */
    isCalm(): boolean;
    revoked: ReadonlyMap<string, unknown>;
  },
): Watch => {
  const found = new Map<string, Breach>();
  const add = (law: string, detail: string): void =>
    void found.set(law, found.get(law) ?? { law, detail });
  const since = new Map<string, number>();
  /** Returns for how long a condition has held. */
  const heldMs = (name: string, isTrue: boolean): number => {
    if (!isTrue) since.delete(name);
    else if (!since.has(name)) since.set(name, world.now());
    return isTrue ? world.now() - (since.get(name) ?? 0) : 0;
  };
  const wasHeld = new Set<string>();
  const before = new Map<string, { process: Process; oldest: number | undefined }>();
  const totals = new Map<string, { losses: number; dropped: number; letters: number }>();

  const watchHost = (host: SimulatedHost): void => {
    const { machine, link, queue, forwarder, disk, process } = host;
    const isAwake = process.isAlive && process.suspendedUntil < world.now();
    const status = forwarder.status();
    const mute = heldMs(`${machine} is mute`, isAwake && link.lost.size > 0 && status.connected);
    if (mute > silenceMs)
      add("health is told within its time", `${machine} is connected after ${mute} ms of silence`);
    // One core is enough, but a call may go to any.
    const canSpeak =
      isAwake &&
      !revoked.has(host.hostId) &&
      link.lost.size === 0 &&
      link.delayMs[1] < 1_000 &&
      disk.failure === undefined;
    const areUp = cores.every(
      ({ process: core, ingest }) =>
        core.isAlive && core.suspendedUntil < world.now() && ingest?.health().healthy,
    );
    const isHeld = cores.some(({ held }) => held.faultOf(host.hostId) !== undefined);
    const isFree =
      heldMs(`${machine} is held by no budget`, !isHeld) > budgetPauseMs || !wasHeld.has(machine);
    if (isHeld) wasHeld.add(machine);
    const idle = heldMs(
      `${machine} could connect`,
      canSpeak && areUp && isFree && !status.connected,
    );
    if (idle > connectMs)
      add(
        "a collector that can connects",
        `${machine} has not for ${idle} ms: ${status.lastError}`,
      );
    if (!process.isAlive) {
      heldMs(`${machine} is stuck`, false);
      return;
    }
    const stats = queue.stats();
    // Of files, the number of records.
    const oldest = stats.records === 0 ? undefined : (disk.image?.rows[0]?.first ?? -stats.records);
    const isServed =
      canSpeak && areUp && isFree && isCalm() && status.connected && oldest !== undefined;
    // A process that starts anew sends the account again that the one before had given up.
    const isSame =
      before.get(machine)?.process === process && before.get(machine)?.oldest === oldest;
    const stuck = heldMs(`${machine} is stuck`, isServed && isSame);
    before.set(machine, { process, oldest });
    if (stuck > stuckMs)
      add("telemetry waits for no account", `${machine} has had ${oldest} for ${stuck} ms`);
    if (stats.bytes > stats.maxBytes)
      add("a queue keeps to its limit", `${machine}: ${stats.bytes} of ${stats.maxBytes}`);
    if (stats.bytes * 100 >= stats.maxBytes * atRiskPercent && !stats.atRisk)
      add(
        "health is told within its time",
        `${machine} is not at risk with ${stats.bytes} of ${stats.maxBytes} bytes`,
      );
    // A disk that goes back takes the totals with it, and a process that cannot write what it knows.
    const losses = disk.restores + host.refusals().forgotten;
    const known = totals.get(machine)?.losses === losses ? totals.get(machine) : undefined;
    const { droppedRecordsTotal: dropped, deadLetters: letters } = stats;
    if (known && (dropped < known.dropped || letters < known.letters))
      add("totals only grow", `${machine}: ${dropped} dropped, ${letters} dead letters`);
    totals.set(machine, { losses, dropped, letters });
  };
  const watchCore = ({ process, ingest }: SimulatedCore): void => {
    const bytes = ingest?.gauges().inFlightBytes ?? 0;
    if (bytes > inFlightBytesMax)
      add("a core keeps to its memory", `${process.name}: ${bytes} bytes`);
  };
  const watch = (): void => {
    for (const host of hosts) watchHost(host);
    for (const core of cores) watchCore(core);
    world.after(everyMs, watch);
  };
  world.after(everyMs, watch);
  return { breaches: () => [...found.values()] };
};
