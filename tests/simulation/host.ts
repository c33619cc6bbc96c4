/** A host: sources that append numbered records, the collector's queue on a disk of the model, and its forwarder. */

import { createForwarder, type Forwarder } from "../../collector/forward/forwarder.ts";
import { createQueue } from "../../collector/queue/create-queue.ts";
import type { Queue } from "../../collector/queue/queue.ts";
import type { NewRecord } from "../../collector/queue/record.ts";
import { zstdCodec } from "../../functions/node/ingest/zstd-codec.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { cutPower, type Disk, openDiskStore, type StoreFault } from "./disk.ts";
import { type Link, type Network, type Target, wholeLink } from "./network.ts";
import type { Oracle } from "./oracle.ts";
import { tracedQueue } from "./trace.ts";
import { endProcess, type Process, type World } from "./world.ts";

/** A running collector. */
export interface SimulatedHost {
  readonly hostId: string;
  /** Names the machine: copies of a host have one host id. */
  readonly machine: string;
  readonly disk: Disk;
  readonly link: Link;
  process: Process;
  queue: Queue;
  forwarder: Forwarder;
  /** Ends the process as SIGKILL does, and with a power cut loses what is not synced. */
  kill(options: { isPowerCut: boolean }): void;
  start(): void;
  /** Appends one record, as a source does; resolves when it is acknowledged. */
  offer(): Promise<void>;
  isRunning(): boolean;
}

/** Changes what a collector is given: a planted fault. */
export interface HostFault {
  store?: StoreFault;
  queue?: (queue: Queue) => Queue;
  clock?: (clock: Clock) => Clock;
  entropy?: (entropy: Entropy) => Entropy;
}

/** The dependencies of a host. */
export interface HostNeeds {
  hostId: string;
  machine: string;
  disk: Disk;
  network: Network;
  oracle: Oracle;
  coreOf(): Target | undefined;
  /** How often a source appends, in milliseconds, and until when. */
  appendMs: number;
  untilMs: number;
  /** The limit of the queue. */
  queueBytesMax: number;
  fault?: HostFault | undefined;
}

const limits = {
  maxRecordAgeSeconds: 7 * 86_400,
  atRiskBytesPercent: 80,
  atRiskOldestSeconds: 3_600,
  dropNewestOnFull: false,
};

/** Makes a host and starts it. */
export const startHost = (world: World, needs: HostNeeds): SimulatedHost => {
  const { hostId, machine, disk, network, oracle, coreOf, appendMs, untilMs, queueBytesMax, fault = {} } = needs;
  const link: Link = { ...wholeLink };

  const open = (process: Process): { queue: Queue; forwarder: Forwarder } => {
    const clock = fault.clock?.(world.clockOf(process)) ?? world.clockOf(process);
    const entropy = fault.entropy?.(world.entropy) ?? world.entropy;
    const opened = createQueue(
      { ...limits, maxDiskUsageBytes: queueBytesMax, clock, entropy },
      {
        openStore: (now) => openDiskStore(disk, { entropy, now, ...(fault.store && { fault: fault.store }) }),
        onClosed: () => undefined,
      },
    );
    const queue = tracedQueue(world, machine, fault.queue?.(opened) ?? opened);
    const forwarder = createForwarder({
      connect: () => network.connect({ hostId, process, link }, coreOf),
      hostId,
      queue,
      batch: { maxEnvelopes: world.chance.integer(1, 20), maxBytes: 16 * 1024, lingerMs: 50 },
      maxInFlightFrames: world.chance.integer(1, 8),
      // Some send frames, as through an older core, and the others blocks.
      compression: world.chance.integer(0, 1) === 0 ? "none" : "gzip",
      createBlockCompressor: () => async (raw) => [Uint8Array.from(zstdCodec.compress(raw))],
      clock,
      entropy,
      log: quiet,
    });
    return { queue, forwarder };
  };

  /** Appends until the process ends: a few records at a time, the next ones once these are stored. */
  const produce = async (queue: Queue): Promise<void> => {
    while (world.now() < untilMs) {
      await world.pause(world.chance.integer(1, 2 * appendMs));
      try {
        await offer(queue, world.chance.integer(1, 5));
      } catch {
        // The disk cannot be written: the source keeps its records, and these count as never offered.
        await world.pause(1_000);
      }
    }
  };
  const offer = async (queue: Queue, records: number): Promise<void> => {
    const texts = Array.from({ length: records }, () => oracle.produce(machine));
    const offered = texts.map((text) => recordOf(text, world.chance.isLikely(refusedShare) ? refusedKind : "log_line"));
    if ((await queue.append(offered)) === "stored") oracle.acknowledge(hostId, texts);
  };

  const run = (): Pick<SimulatedHost, "process" | "queue" | "forwarder"> => {
    const process = world.process(machine);
    return world.as(process, () => {
      const { queue, forwarder } = open(process);
      void forwarder.run(new AbortController().signal);
      void produce(queue);
      return { process, queue, forwarder };
    });
  };

  const host: SimulatedHost = {
    ...{ hostId, machine, disk, link },
    ...run(),
    isRunning: () => host.process.isAlive,
    start: () => {
      world.note(`${machine} starts`);
      Object.assign(host, run());
    },
    offer: () => world.as(host.process, () => offer(host.queue, 1)),
    kill: ({ isPowerCut }) => {
      endProcess(host.process);
      world.note(`${machine} is killed`);
      network.cut((of) => of.hostId === hostId);
      if (isPowerCut) cutPower(disk);
    },
  };
  return host;
};

/** What core rejects, and how often a source has it. */
const refusedKind = "Not a kind";
const refusedShare = 0.01;

const recordOf = (text: string, kind: string): NewRecord => ({
  kind,
  observedAtMs: 0,
  source: "file",
  attributes: {},
  payload: Buffer.from(text),
});

const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
