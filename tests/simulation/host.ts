/** A host: sources that append numbered records, the collector's queue on a disk of the model, and its forwarder. */

import { createForwarder, type Forwarder } from "#collector/forward/forwarder.ts";
import { isDiskUnwritable } from "#collector/queue/errors.ts";
import { addFileGaps, fileGapSource } from "#collector/queue/file-gaps.ts";
import { createQueue, type Queue } from "#collector/queue/queue.ts";
import type { NewRecord } from "#collector/queue/record.ts";
import { drainAccounts, endAccounts, keepAccounts } from "#collector/runtime/keep-accounts.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { cutPower, type Disk, openDiskStore, type StoreFault } from "./disk.ts";
import { crashFolder, emptyFolder, openFolderStore } from "./file-disk.ts";
import { keyOfHost } from "./host-keys.ts";
import { type Link, type Network, type Target, wholeLink } from "./network.ts";
import type { Oracle } from "./oracle.ts";
import { smallFrameBytes } from "./plan.ts";
import type { Heard } from "./queue-past.ts";
import { tracedQueue } from "./trace.ts";
import { endProcess, type Process, type World } from "./world.ts";

/** A running collector. */
export interface SimulatedHost {
  readonly hostId: string;
  /** Names the machine: copies of a host have one host id. */
  readonly machine: string;
  readonly disk: Disk;
  readonly link: Link;
  /** What core has answered it. */
  readonly heard: readonly Heard[];
  process: Process;
  queue: Queue;
  forwarder: Forwarder;
  /** Ends the process as SIGKILL does, and with a power cut loses what is not synced. */
  kill(options: { isPowerCut: boolean }): void;
  start(): void;
  /**
   * Ends the process as its service manager does: its last account is written, which may end its queue, and what it has is sent for a while. Then
   * starts it again.
   */
  stop(restartAfterMs: number, isEnding?: boolean): void;
  /** Writes the account of the time until now, as a stop does. */
  endAccounts(): void;
  /** The records that its sources could not store, and how often it ended before it could write down how many: that is gone. */
  refusals(): { dropped: number; forgotten: number };
  /** Appends one record, as a source does; resolves when it is acknowledged. */
  offer(): Promise<void>;
  /** Notes that a log file is gone before it was read, of so many bytes; 0: nobody knows. */
  loseFile(bytes: number): Promise<void>;
  /** Has no queue any more: it starts with an empty one. */
  loseQueue(): void;
  isRunning(): boolean;
}

/** Changes what a collector is given: a planted fault. */
export interface HostFault {
  store?: StoreFault;
  queue?: (queue: Queue) => Queue;
  clock?: (clock: Clock) => Clock;
  entropy?: (entropy: Entropy) => Entropy;
  accountTimeoutMs?: number;
}

/** What one process of a host has. */
interface Running extends Pick<SimulatedHost, "process" | "queue" | "forwarder"> {
  accounting: Parameters<typeof endAccounts>[0];
  /** Its sources. */
  producing: Promise<void>;
  /** Aborts when it is asked to stop. */
  stopping: AbortController;
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
  /** A full queue drops what it is offered, and a source does not wait. */
  dropsWhenFull: boolean;
  fault?: HostFault | undefined;
}

const limits = {
  maxRecordAgeSeconds: 7 * 86_400,
  atRiskBytesPercent: 80,
  atRiskOldestSeconds: 3_600,
};
/** As collector/runtime/supervisor.ts has it. */
const drainMs = 5_000;
const drainPollMs = 200;
const openAgainMs = 5_000;

/** Creates a host and starts it. */
export const startHost = (world: World, needs: HostNeeds): SimulatedHost => {
  const {
    hostId,
    machine,
    disk,
    network,
    oracle,
    coreOf,
    appendMs,
    untilMs,
    queueBytesMax,
    fault = {},
  } = needs;
  const link: Link = { ...wholeLink };
  const refusals = { dropped: 0, forgotten: 0 };
  const heard: Heard[] = [];
  // Frames of large records are compressed, and small ones among them are not.
  const attributes = world.chance.isLikely(0.3)
    ? { padding: "-".repeat(world.chance.integer(50, 250)) }
    : {};
  const noteEnd = (): void => {
    if (!host.process.isAlive) return;
    const { droppedRecords = 0, quarantinedRecords = 0 } = disk.image?.state ?? {};
    if (host.queue.stats().droppedRecordsTotal <= droppedRecords + quarantinedRecords) return;
    refusals.forgotten += 1;
    disk.ledger.dropped.length = 0;
  };

  const open = (process: Process): Pick<Running, "queue" | "forwarder" | "accounting"> => {
    const clock = fault.clock?.(world.clockOf(process)) ?? world.clockOf(process);
    const entropy = fault.entropy?.(world.entropy) ?? world.entropy;
    const opened = createQueue(
      {
        ...limits,
        dropNewestOnFull: needs.dropsWhenFull,
        maxDiskUsageBytes: queueBytesMax,
        clock,
        entropy,
      },
      {
        openStore: (now, onReplaced) => {
          const { folder } = disk;
          if (folder)
            return openFolderStore(Object.assign(disk, { folder }), {
              entropy,
              clock,
              now,
              onReplaced,
            });
          return openDiskStore(disk, { entropy, now, ...(fault.store && { fault: fault.store }) });
        },
        onClosed: () => undefined,
      },
    );
    const queue = tracedQueue(world, machine, fault.queue?.(opened) ?? opened, heard);
    const forwarder = createForwarder({
      connect: () => network.connect({ hostId, process, link }, coreOf),
      hostId,
      queue,
      batch: { maxEnvelopes: world.chance.integer(1, 20), maxBytes: 16 * 1024, lingerMs: 50 },
      maxInFlightFrames: world.chance.integer(1, 8),
      // Some send frames, as through an older core, and the others blocks.
      compression: world.chance.integer(0, 1) === 0 ? "none" : "gzip",
      ...(fault.accountTimeoutMs !== undefined && { accountTimeoutMs: fault.accountTimeoutMs }),
      createBlockCompressor: () => async (raw) => [Uint8Array.from(zstdCodec.compress(raw))],
      clock,
      entropy,
      log: quiet,
    });
    return {
      queue,
      forwarder,
      accounting: { queue, clock, credentials: () => keyOfHost(hostId), log: quiet },
    };
  };

  /** Appends until the process ends: a few records at a time, the next ones once these are stored. */
  const produce = async (
    running: Pick<Running, "process" | "queue">,
    stopping: AbortSignal,
  ): Promise<void> => {
    while (world.now() < untilMs && !stopping.aborted) {
      await world.pause(world.chance.integer(1, 2 * appendMs));
      try {
        await offer(running, world.chance.integer(1, 5));
      } catch {
        // The disk cannot be written: the source keeps its records, and these count as never offered.
        await world.pause(1_000);
      }
    }
  };
  const offer = async (
    { process, queue }: Pick<Running, "process" | "queue">,
    records: number,
  ): Promise<void> => {
    const texts = Array.from({ length: records }, () => oracle.produce(machine));
    const offered = texts.map((text) => ({
      ...recordOf(text, world.chance.isLikely(refusedShare) ? refusedKind : "log_line"),
      attributes: world.chance.isLikely(largeShare) ? largeAttributes : attributes,
    }));
    if ((await queue.append(offered)) === "stored") oracle.acknowledge(hostId, texts);
    else {
      refusals.dropped += records;
      disk.ledger.dropped.push(world.clockOf(process).now());
    }
  };

  const run = (): Running => {
    const process = world.process(machine);
    return world.as(process, () => {
      const opened = open(process);
      const stopping = new AbortController();
      void opened.forwarder.run(new AbortController().signal);
      void keepAccounts(opened.accounting, stopping.signal);
      const producing = produce({ process, queue: opened.queue }, stopping.signal);
      return { process, stopping, producing, ...opened };
    });
  };
  const end = async (running: Running, isEnding: boolean): Promise<void> => {
    const { process, queue, forwarder, accounting, producing } = running;
    // Nothing is appended behind the account that ends a queue.
    if (isEnding) await Promise.race([producing, world.pause(drainMs)]);
    await drainAccounts(
      { ...accounting, queue },
      { forwarder: forwarder.status, isEnding, waitMs: drainMs },
    );
    noteEnd();
    await queue
      .close()
      .catch((cause: unknown) => world.note(`${machine} cannot close its queue: ${String(cause)}`));
    endProcess(process);
    world.note(`${machine} has stopped`);
    network.cut((of) => of.hostId === hostId);
  };

  /** As collector/runtime/supervisor.ts does, until its queue opens. */
  const restartLater = () =>
    world.after(openAgainMs, () => {
      if (!host.isRunning()) host.start();
    });

  const host: SimulatedHost & Running = {
    hostId,
    machine,
    disk,
    link,
    heard,
    ...run(),
    refusals: () => refusals,
    isRunning: () => host.process.isAlive,
    start: () => {
      world.note(`${machine} starts`);
      try {
        Object.assign(host, run());
      } catch (error) {
        if (!isDiskUnwritable(error)) throw error;
        world.note(`${machine} waits for its disk: ${error}`);
        restartLater();
      }
    },
    stop: (restartAfterMs, isEnding = false) => {
      const { process, stopping } = host;
      if (stopping.signal.aborted || !process.isAlive) return;
      stopping.abort();
      world.note(`${machine} stops`);
      world.as(process, () => void end(host, isEnding));
      const restart = (): void => {
        if (host.process !== process) return;
        if (process.isAlive) world.after(drainPollMs, restart);
        else host.start();
      };
      world.after(restartAfterMs, restart);
    },
    endAccounts: () => world.as(host.process, () => endAccounts(host.accounting)),
    offer: () => world.as(host.process, () => offer(host, 1)),
    loseFile: (bytes) =>
      world.as(host.process, async () => {
        const { queue, process } = host;
        const checkpoints = [addFileGaps(queue.checkpoints(fileGapSource), "file", [bytes])];
        if ((await queue.append([], { checkpoints })) === "stored")
          disk.ledger.dropped.push(world.clockOf(process).now());
      }),
    loseQueue: () => {
      host.kill({ isPowerCut: false });
      if (disk.folder) emptyFolder(disk.folder);
      disk.image = disk.synced = undefined;
      disk.restores += 1;
      disk.ledger.dropped.length = 0;
    },
    kill: ({ isPowerCut }) => {
      noteEnd();
      endProcess(host.process);
      world.note(`${machine} is killed`);
      network.cut((of) => of.hostId === hostId);
      if (disk.folder) crashFolder(disk.folder);
      else if (isPowerCut) cutPower(disk);
    },
  };
  return host;
};

/** What core rejects, and how often a source has it. */
const refusedKind = "Not a kind";
const refusedShare = 0.01;
/** What a core that takes small frames does not, and how often a source has it. */
const largeAttributes = { padding: "-".repeat(smallFrameBytes) };
const largeShare = 0.02;

const recordOf = (text: string, kind: string): Omit<NewRecord, "attributes"> => ({
  kind,
  observedAtMs: 0,
  source: "file",
  payload: Buffer.from(text),
});

const quiet = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
