/** What happens to hosts that the hours of their statements have to show, drawn from the seed. */
import { dayMs } from "#kit/clock.ts";
import { anyHost, type Fault, restartLater, restoreLater, seconds } from "./faults.ts";
import type { SimulatedHost } from "./host.ts";
import { wholeLink } from "./network.ts";
import type { Lab } from "./simulate.ts";
import { endQueueRow } from "./tables.ts";

/** Cuts a host off in most cases, so that it has something that it has not sent, and then acts. */
const behind = (lab: Lab, host: SimulatedHost, act: () => void): void => {
  if (lab.world.chance.isLikely(0.3)) {
    act();
    return;
  }
  host.link.lost = new Set(["up", "down"]);
  lab.world.after(seconds(lab, 1, 10), () => {
    host.link.lost = wholeLink.lost;
    act();
  });
};

/** Milliseconds by which a disk goes back, or for which all machines sleep. */
const sleepMs = ({ world: { chance } }: Lab): number =>
  chance.pick([chance.integer(1, 100) * 60_000, chance.integer(1, 3) * dayMs]);

/** The faults by name. */
export const hourFaults: Readonly<Record<string, Fault>> = {
  "a host loses its queue": (lab) => {
    const host = anyHost(lab);
    behind(lab, host, () => {
      lab.lose(host, undefined);
      lab.oracle.restored(host.machine, -1);
      host.loseQueue();
      restartLater(lab, host);
    });
  },
  "a disk goes back by minutes or days": (lab) => {
    const host = anyHost(lab);
    const since = lab.world.now();
    lab.world.after(seconds(lab, 1, 10), () =>
      behind(lab, host, () => lab.world.leap(sleepMs(lab))),
    );
    restoreLater(lab, host, { since, afterMs: seconds(lab, 10, 18) });
  },
  "a collector ends its queue": (lab) => anyHost(lab).stop(seconds(lab, 0, 15), true),
  "all machines sleep": (lab) => lab.world.leap(sleepMs(lab)),
  "a host is revoked": (lab) => {
    const host = anyHost(lab);
    behind(lab, host, () => lab.revoke(host.hostId));
  },
  "a log file is lost in its rotation": (lab) => {
    const host = anyHost(lab);
    if (host.isRunning()) host.loseFile(lab.world.chance.pick([0, 100])).catch(() => undefined);
  },
  "an admin closes a queue": (lab) => {
    const rows = [...lab.server.tables.queues.keys()];
    if (rows.length === 0) return;
    const row = lab.world.chance.pick(rows);
    const endedAt = lab.world.clockOf(lab.world.chance.pick(lab.cores).process).now();
    endQueueRow(lab.server.tables, row, { endedAt, ending: "closed" });
    // Of one that sends, core would see it with its next account only.
    lab.network.cut(({ hostId }) => row.startsWith(`${hostId}\0`));
  },
};
