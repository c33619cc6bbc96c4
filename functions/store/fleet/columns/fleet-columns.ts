/**
 * The columns of `fleet_status` that decide states, filters and orders, in core's memory while somebody looks at the fleet. Invariants: a host
 * keeps its place; a view has every change that was committed before the refresh that the call waited for, or `sharedFor` before it; what is
 * read is decided by the expressions that the database gets (expression.ts).
 */
import { sql } from "drizzle-orm";
import type { Database } from "#functions/store/database/database.ts";
import type { Clock } from "#kit/clock.ts";
import { type SharedFor, shareNextRun } from "#kit/share-next-run.ts";
import { readPacked } from "./packed-rows.ts";
import { type HostTable, loadHosts, type ResidentHosts } from "./resident-hosts.ts";

/** The columns of hosts in core's memory. */
export interface FleetColumns {
  /** Returns the hosts as they are now; undefined until they are loaded, which begins with the first call. */
  current(): Promise<ResidentHosts | undefined>;
  /** Resolves when the hosts are loaded. */
  load(): Promise<void>;
}

/** Changes that a host makes in so long are read at once; those of a longer time by loading. */
const refreshMsMax = 20_000;
/** The memory is freed after this time without a read. */
const idleMs = 300_000;

/** Creates the columns, still empty. The memory is kept up to date each second while it is used. */
export const createFleetColumns = ({
  db,
  clock,
  sharedFor,
  stopping,
  onFailure,
}: {
  db: Pick<Database, "execute">;
  clock: Pick<Clock, "monotonic" | "sleep">;
  /** For how long a refresh serves others. */
  sharedFor?: SharedFor | undefined;
  /** Aborts when core stops. */
  stopping?: AbortSignal;
  onFailure(cause: unknown): void;
}): FleetColumns => {
  let hosts: HostTable | undefined;
  let loading: Promise<void> | undefined;
  let usedAt = 0;

  const load = async () => {
    const readAt = clock.monotonic();
    const loaded = await loadHosts(db);
    loaded.readAt = readAt;
    hosts = loaded;
  };
  const refresh = shareNextRun(
    async (loaded: HostTable) => {
      const readAt = clock.monotonic();
      // A row that a transaction wrote, which had not ended when the last statement began, or began later.
      const rows = await readPacked(
        db,
        sql`where age(xmin) <= (select age(${loaded.since}::xid8::xid))`,
      );
      // Another server may lack the last transactions of the one before, and use their numbers again.
      if (rows.server !== loaded.server) {
        hosts = undefined;
        return;
      }
      loaded.take(rows);
      loaded.since = rows.since;
      loaded.readAt = readAt;
    },
    () => "",
    sharedFor,
  );
  const isTooOld = ({ readAt }: HostTable) => clock.monotonic() - readAt > refreshMsMax;
  const keepFresh = async () => {
    const own = hosts;
    while (own && hosts === own && clock.monotonic() - usedAt < idleMs) {
      await refresh(own);
      await clock.sleep(1000, stopping);
    }
    if (hosts === own) hosts = undefined;
  };
  const begin = () => {
    loading ??= load().finally(() => {
      loading = undefined;
    });
    return loading;
  };

  return {
    load: begin,
    async current() {
      usedAt = clock.monotonic();
      if (hosts === undefined || isTooOld(hosts)) {
        hosts = undefined;
        if (!loading)
          begin()
            .then(keepFresh)
            .catch((cause: unknown) => {
              hosts = undefined;
              if (!stopping?.aborted) onFailure(cause);
            });
        return undefined;
      }
      await refresh(hosts);
      return hosts;
    },
  };
};
