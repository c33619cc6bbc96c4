/** What happens to a lab, drawn from the seed. Every fault ends by itself, or with `heal`. */
import type { Hold } from "#functions/ingest/held-hosts.ts";
import { hourMs } from "#kit/clock.ts";
import type { Disk, QueueFolder } from "./disk.ts";
import { damageFolder, hasMark } from "./file-disk.ts";
import type { SimulatedHost } from "./host.ts";
import { wholeLink } from "./network.ts";
import type { Lab } from "./simulate.ts";
import type { Tables } from "./tables.ts";
import type { Process } from "./world.ts";

/** Does something to a lab. */
export type Fault = (lab: Lab) => void;

/** Draws milliseconds of so many seconds. */
export const seconds = (lab: Lab, min: number, max: number) =>
  lab.world.chance.integer(min * 1000, max * 1000);
/** Draws a host. */
export const anyHost = (lab: Lab) => lab.world.chance.pick(lab.hosts);

const failDisk = (lab: Lab, failure: "full" | "error") => {
  const { disk, hostId } = anyHost(lab);
  // A collector that ends before it can write again forgets its sessions, and is taken for a copy.
  lab.oracle.copied(hostId);
  disk.failure = failure;
  lab.world.after(seconds(lab, 1, 20), () => (disk.failure = undefined));
};

/** Starts a host again some seconds later. */
export const restartLater = (lab: Lab, host: SimulatedHost) => {
  lab.world.after(seconds(lab, 0, 15), () => {
    if (!host.isRunning()) host.start();
  });
};

/** Puts the disk of a host back to what it is now, `afterMs` later. */
export const restoreLater = (
  lab: Lab,
  host: SimulatedHost,
  { since, afterMs }: { since: number; afterMs: number },
) => {
  if (host.disk.folder) return;
  const image = host.disk.image;
  const acknowledged = lab.oracle.acknowledged();
  lab.world.after(afterMs, () => {
    host.kill({ isPowerCut: false });
    lab.lose(host, image && { image, since });
    host.disk.image = host.disk.synced = image;
    host.disk.restores += 1;
    host.disk.ledger.dropped.length = 0;
    lab.oracle.restored(host.machine, acknowledged);
    lab.oracle.copied(host.hostId);
    restartLater(lab, host);
  });
};

/** Makes a wall clock up to a fifth too fast or too slow from now on. */
const drift = ({ world }: Lab, process: Process) => {
  const rate = world.chance.integer(-20, 20) / 100;
  process.clockOffsetMs += (process.clockRate - rate) * world.now();
  process.clockRate = rate;
};

/** Acts so long before the hour ends, in half of the cases and if that is soon, and otherwise now. */
export const nearHourEnd = ({ world, server }: Lab, beforeMs: number, act: () => void) => {
  const leftMs = hourMs - (world.clockOf(server.process).now() % hourMs);
  if (world.chance.isLikely(0.5) && leftMs < soonMs) world.after(leftMs - beforeMs, act);
  else act();
};
const soonMs = 30_000;

/** Returns what puts a server that lags in the place of the one where cores store. */
const standBy = ({ server }: Lab): (() => void) => {
  const standby = server.backUp();
  return () => server.restore(standby, { isPromotion: true });
};

/** The fault of budgets: cores store nothing more of a host for a time. Drawn apart, so that it changes no other history. */
export const budgetFault = "a host has sent its budget";

/** The fault of an older core: what it stores, no account has. Drawn apart, as that of budgets. */
export const olderFault = "an older core stores";

/** The fault of a collector that core takes for a copy of itself. Drawn apart, as that of budgets. */
export const forgottenFault = "a collector forgets its newest session";

/**
 * Restarts a host that has sent all of its records twice: first on a full disk, which cannot store the session that it opens, and then without
 * a connection, so that it has new records when core takes it for a copy.
 */
const forgetSession: Fault = (lab) => {
  const { world, oracle } = lab;
  const host = anyHost(lab);
  const { disk, link } = host;
  const restart = (then: () => void) => {
    host.kill({ isPowerCut: false });
    world.after(world.chance.integer(100, 1_000), () => {
      if (!host.isRunning()) host.start();
      then();
    });
  };
  if (!host.isRunning() || disk.folder || disk.image?.rows.length !== 0) return;
  oracle.copied(host.hostId);
  disk.failure = "full";
  restart(() =>
    world.after(seconds(lab, 1, 3), () => {
      disk.failure = undefined;
      link.lost = new Set(["up", "down"]);
      restart(() => world.after(seconds(lab, 1, 8), () => (link.lost = wholeLink.lost)));
    }),
  );
};

/** The fault of a restore of which a revoked host would have to say what it lacks. Drawn apart, as that of budgets. */
export const unclaimedFault = "a host is revoked as a standby takes over unnoticed";

/** Cuts a host off, so that what it sends then is of a session that the standby does not know, and revokes it before it can claim that. */
const revokeUnclaimed: Fault = (lab) => {
  const { hostId } = anyHost(lab);
  const takeOver = standBy(lab);
  lab.network.cut((of) => of.hostId === hostId);
  lab.world.after(seconds(lab, 2, 8), () => {
    takeOver();
    for (const each of lab.hosts) lab.oracle.copied(each.hostId);
    lab.revoke(hostId);
  });
};

/** Notes where nobody knows what damage took, or of what hours. A collector that starts writes a new mark. */
const forgetDamaged = (disk: Disk, folder: QueueFolder) => {
  const { ledger } = disk;
  const lacksMark = disk.damages > 1 && !hasMark(folder);
  disk.lacksMark ||= lacksMark;
  if (lacksMark || ledger.hasJumped)
    for (const text of ledger.written.keys()) ledger.lost.set(text, undefined);
};

const holdHost: Fault = (lab) => {
  const { hostId } = anyHost(lab);
  const until = new Date(8.64e15);
  const holdAll = (holds: readonly Hold[]) => {
    for (const { held } of lab.cores) held.set(holds);
  };
  holdAll([{ hostId, budget: "small", until }]);
  lab.world.after(seconds(lab, 1, 60), () => holdAll([]));
};

/** Faults after which the database is at an earlier state. */
export const restoringFaults = [
  "the database is restored from a backup",
  "a standby that lags is promoted",
];

/** The faults by name. */
export const faults: Readonly<Record<string, Fault>> = {
  "a host's connections are cut": (lab) => {
    const { hostId } = anyHost(lab);
    lab.network.cut((of) => of.hostId === hostId);
  },
  "a host's network swallows everything": (lab) => {
    const { link } = anyHost(lab);
    link.lost = new Set(["up", "down"]);
    lab.world.after(seconds(lab, 1, 60), () => (link.lost = wholeLink.lost));
  },
  "a host's connection is half-open": (lab) => {
    const { link } = anyHost(lab);
    link.lost = new Set([lab.world.chance.pick(["up", "down"] as const)]);
    lab.world.after(seconds(lab, 1, 60), () => (link.lost = wholeLink.lost));
  },
  "a proxy sends a host's call again": (lab) => {
    const { hostId } = anyHost(lab);
    const target = lab.cores.find(({ process }) => process.isAlive);
    // As a copy does, it comes with a session that is not the newest.
    lab.oracle.copied(hostId);
    if (target) lab.network.repeat((of) => of.hostId === hostId, target);
  },
  "a host's network is slow": (lab) => {
    const { link } = anyHost(lab);
    link.delayMs = [200, 4_000];
    lab.world.after(seconds(lab, 1, 20), () => (link.delayMs = wholeLink.delayMs));
  },
  "a collector is killed": (lab) => {
    const host = anyHost(lab);
    host.kill({ isPowerCut: false });
    restartLater(lab, host);
  },
  "a collector is stopped": (lab) => anyHost(lab).stop(seconds(lab, 0, 15)),
  "a host loses power": (lab) => {
    const host = anyHost(lab);
    host.kill({ isPowerCut: true });
    restartLater(lab, host);
  },
  "a collector is suspended": (lab) => {
    anyHost(lab).process.suspendedUntil = lab.world.now() + seconds(lab, 1, 30);
  },
  "a host's disk is full": (lab) => failDisk(lab, "full"),
  "a host's disk has errors": (lab) => failDisk(lab, "error"),
  "a host's clock drifts": (lab) => drift(lab, anyHost(lab).process),
  "a core's clock drifts": (lab) => drift(lab, lab.world.chance.pick(lab.cores).process),
  "a host's clock jumps": (lab) => {
    const { process, disk } = anyHost(lab);
    process.clockOffsetMs = lab.world.chance.integer(-40, 40) * 86_400_000;
    disk.ledger.hasJumped = true;
  },
  "a host's files are damaged": (lab) => {
    const host = anyHost(lab);
    const { folder } = host.disk;
    if (folder === undefined) return;
    host.kill({ isPowerCut: false });
    const how = damageFolder(folder, lab.world.chance);
    lab.world.note(`of ${host.machine}, ${how}`);
    host.disk.damages += 1;
    forgetDamaged(host.disk, folder);
    host.disk.restores += 1;
    host.disk.ledger.dropped.length = 0;
    // Core takes a queue that damage set back for a copy of itself.
    lab.oracle.copied(host.hostId);
    restartLater(lab, host);
  },
  "a host's disk is restored": (lab) => {
    restoreLater(lab, anyHost(lab), { since: lab.world.now(), afterMs: seconds(lab, 1, 20) });
  },
  "a machine is copied": (lab) => {
    const host = anyHost(lab);
    if (host.disk.image !== undefined && !host.disk.folder && lab.hosts.length < 4) lab.copy(host);
  },
  "a core is killed": (lab) => {
    const at = lab.world.chance.integer(0, lab.cores.length - 1);
    lab.killCore(at, seconds(lab, 0, 10));
  },
  "a core is suspended": (lab) => {
    lab.world.chance.pick(lab.cores).process.suspendedUntil = lab.world.now() + seconds(lab, 1, 20);
  },
  "a core's clock jumps": (lab) => {
    lab.world.chance.pick(lab.cores).process.clockOffsetMs =
      lab.world.chance.integer(-40, 40) * 86_400_000;
  },
  "the database restarts": (lab) => {
    lab.server.restart();
    lab.server.refuseUntil(lab.world.now() + seconds(lab, 0, 5));
  },
  "the database stalls": (lab) => {
    lab.server.process.suspendedUntil = lab.world.now() + seconds(lab, 1, 15);
  },
  "the database is slow": (lab) => {
    const before = lab.delays.commitMs;
    lab.delays.commitMs = [50, 3_000];
    lab.world.after(seconds(lab, 1, 20), () => (lab.delays.commitMs = before));
  },
  "the database is restored from a backup": (lab) => {
    const backup: Tables = lab.server.backUp();
    lab.world.after(seconds(lab, 1, 20), () => {
      lab.server.restore(backup);
      for (const { hostId } of lab.hosts) lab.oracle.copied(hostId);
    });
  },
  "a standby that lags is promoted": (lab) => {
    // As an hour ends, it lacks the hosts' accounts, and nothing that these speak of.
    nearHourEnd(lab, 0, () => lab.world.after(lab.world.chance.integer(0, 3_000), standBy(lab)));
  },
  "a disk is full until a standby takes over": (lab) => {
    const { disk, hostId, isRunning, offer } = anyHost(lab);
    const { chance, after } = lab.world;
    if (!isRunning()) return;
    const takeOver = standBy(lab);
    lab.oracle.copied(hostId);
    const fill = () => {
      // Core acknowledges what was stored last, and the next session deletes it.
      disk.failure = "full";
      after(chance.integer(100, 500), () => {
        disk.failure = undefined;
        takeOver();
        lab.network.cut((of) => of.hostId === hostId);
      });
    };
    offer().then(fill, () => undefined);
  },
  "answers to commits are lost": (lab) =>
    lab.server.loseAnswersUntil(lab.world.now() + seconds(lab, 1, 20)),
  [budgetFault]: holdHost,
  [forgottenFault]: forgetSession,
  [unclaimedFault]: revokeUnclaimed,
  [olderFault]: (lab) => lab.server.countNothingUntil(lab.world.now() + seconds(lab, 1, 20)),
  "the database's clock jumps": (lab) => {
    lab.server.process.clockOffsetMs = lab.world.chance.integer(-40, 40) * 86_400_000;
  },
};
