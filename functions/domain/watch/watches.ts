import type { Core, ReadCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import {
  addWatchEvent,
  type DescribedWatch,
  deleteWatch,
  findWatch,
  findWatchEvents,
  insertMessages,
  insertWatch,
  isWatchNamed,
  listWatches,
  lockWatch,
  lockWatchCount,
  updateWatch,
  type WatchEventRow,
  type WatchFilter,
  type WatchRow,
} from "#functions/store/watch/watches.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { type FleetFilter, filterToParams, withoutHistory } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import {
  type SilenceBody,
  type WatchBody,
  type WatchChangeBody,
  type WatchMessageBody,
  watchesMax,
} from "#proto/watch/watch.ts";
import { type AuditEntry, type By, recordOperatorAction } from "../audit/audit-log.ts";
import { parseFilter } from "../fleet/parse-filter.ts";
import { readCountingRules } from "../fleet/rules.ts";
import { fleetThresholds } from "../fleet/thresholds.ts";
import { outageAt, unevaluated, withoutPastSilence } from "./evaluate.ts";

/** The parts of core that change watches. */
export type WatchCore = Pick<Core, "config" | "watches" | "db" | "clock" | "entropy">;

/**
 * Creates a watch, which core evaluates within seconds. Throws 422 `validation_failed` for a faulty filter or a receiver that is not
 * configured, 409 `watch_name_taken`, and 409 `too_many_watches`.
 */
export const createWatch = async (
  core: WatchCore,
  by: By,
  body: WatchBody,
): Promise<DescribedWatch> => {
  const { db, clock, entropy } = core;
  const definition = definitionOf(core, body);
  return db.transaction(async (tx) => {
    if ((await lockWatchCount(tx)) >= watchesMax) throw new Problem("too_many_watches");
    const now = new Date(clock.now());
    const row: WatchRow = {
      id: uuidv7({ clock, entropy }),
      ...definition,
      revision: 1,
      ...unevaluated(now),
      createdAt: now,
      createdBy: by.caller.userId,
      createdByName: by.caller.email,
      silencedUntil: null,
      silencedBy: null,
      silenceReason: null,
    };
    if (!(await insertWatch(tx, row))) throw new Problem("watch_name_taken");
    await audit(tx, core, by, { action: "watch.create", id: row.id, details: { ...body } });
    return { ...row, waitingMessages: 0 };
  });
};

/**
 * Replaces the definition of a watch, which core then evaluates anew. If receivers were notified that it fires, notifies them that it has
 * ended. Throws as `createWatch` does, 404 `not_found`, and 409 `conflict` if another change came first.
 */
export const changeWatch = async (
  core: WatchCore,
  by: By,
  { id, revision, ...body }: WatchChangeBody & { id: string },
): Promise<DescribedWatch> => {
  const definition = definitionOf(core, body);
  return core.db.transaction(async (tx) => {
    const row = await requireLocked(tx, id);
    if (row.revision !== revision)
      throw new Problem("conflict", {
        detail: `The watch has changed since: it has revision ${row.revision}`,
      });
    if (await isWatchNamed(tx, body.name, id)) throw new Problem("watch_name_taken");
    const now = new Date(core.clock.now());
    if (row.announcedCount !== null)
      await addMessages(tx, core, row, { type: "watch.resolved", at: now, reason: "changed" });
    await updateWatch(tx, id, { ...definition, revision: revision + 1, ...unevaluated(now) });
    if (row.isFiring)
      await addWatchEvent(tx, {
        watchId: id,
        at: now,
        kind: "resolved",
        detail: "the watch was changed",
      });
    await audit(tx, core, by, { action: "watch.change", id, details: { ...body } });
    return requireDescribed(tx, id, now);
  });
};

/** Deletes a watch. If receivers were notified that it fires, notifies them that it has ended. Throws 404 `not_found`. */
export const removeWatch = async (core: WatchCore, by: By, id: string): Promise<void> =>
  core.db.transaction(async (tx) => {
    const row = await requireLocked(tx, id);
    const now = new Date(core.clock.now());
    if (row.announcedCount !== null)
      await addMessages(tx, core, row, { type: "watch.resolved", at: now, reason: "deleted" });
    await deleteWatch(tx, id);
    await audit(tx, core, by, {
      action: "watch.delete",
      id,
      details: { name: row.name, filter: row.filter },
    });
  });

/**
 * Silences a watch for a time, or ends its silence. A silenced watch notifies no receiver that it fires, but receivers notified before that
 * it has ended. Throws 404 `not_found`.
 */
export const silenceWatch = async (
  core: WatchCore,
  by: By,
  { id, seconds, reason }: SilenceBody & { id: string },
): Promise<DescribedWatch> =>
  core.db.transaction(async (tx) => {
    await requireLocked(tx, id);
    const now = new Date(core.clock.now());
    const until = seconds === 0 ? null : new Date(now.getTime() + seconds * 1000);
    const silence = {
      silencedUntil: until,
      silencedBy: until && by.caller.email,
      silenceReason: until && reason,
    };
    await updateWatch(tx, id, silence);
    await addWatchEvent(tx, {
      watchId: id,
      at: now,
      kind: until === null ? "unsilenced" : "silenced",
      detail: [until && `until ${until.toISOString()}`, `by ${by.caller.email}`, reason]
        .filter(Boolean)
        .join(", "),
    });
    const details = until === null ? {} : { until: until.toISOString() };
    await audit(tx, core, by, { action: "watch.silence", id, reason, details });
    return requireDescribed(tx, id, now);
  });

/** Sends a test message to each receiver of a watch. Throws 404 `not_found`, and 409 `watch_without_receivers`. */
export const testWatch = async (core: WatchCore, by: By, id: string): Promise<readonly string[]> =>
  core.db.transaction(async (tx) => {
    const row = await requireLocked(tx, id);
    if (row.receivers.length === 0) throw new Problem("watch_without_receivers");
    await addMessages(tx, core, row, { type: "watch.test", at: new Date(core.clock.now()) });
    await audit(tx, core, by, { action: "watch.test", id, details: { receivers: row.receivers } });
    return row.receivers;
  });

const definitionOf = ({ watches, clock }: WatchCore, body: WatchBody) => {
  parseFilter(body.filter, clock.now());
  const known = watches()?.receivers.map(({ name }) => name) ?? [];
  const errors = body.receivers.flatMap((name, index) =>
    known.includes(name)
      ? []
      : [{ path: `receivers.${index}`, message: "is no receiver of core's configuration" }],
  );
  if (errors.length > 0) throw new Problem("validation_failed", { errors });
  return {
    name: body.name,
    filter: body.filter,
    moreThan: body.more_than,
    forSeconds: body.for_seconds,
    receivers: [...body.receivers],
  };
};

const requireLocked = async (tx: Executor, id: string): Promise<WatchRow> =>
  requireFound(await lockWatch(tx, id), "watch");

const requireDescribed = async (tx: Executor, id: string, now: Date): Promise<DescribedWatch> => {
  const row = requireFound(await findWatch(tx, id), "watch");
  return withoutPastSilence(row, now);
};

const audit = (
  tx: Executor,
  core: WatchCore,
  by: By,
  { id, ...entry }: Pick<AuditEntry, "action" | "details" | "reason"> & { id: string },
) => recordOperatorAction(tx, core, by, { ...entry, target: { type: "watch", id } });

/** The parts of core that create messages. */
type MessageCore = Pick<Core, "config" | "watches" | "clock" | "entropy">;

/** Adds a message about the state of a watch at `at` for each of its receivers. Lock the watch first. */
export const addMessages = async (
  tx: Executor,
  core: MessageCore,
  row: WatchRow,
  {
    type,
    at,
    reason = null,
  }: Pick<WatchMessageBody, "type"> & { at: Date; reason?: WatchMessageBody["data"]["reason"] },
) => {
  const body: WatchMessageBody = {
    type,
    timestamp: at.toISOString(),
    data: {
      watch: {
        id: row.id,
        name: row.name,
        filter: row.filter,
        more_than: row.moreThan,
        for_seconds: row.forSeconds,
      },
      count: row.count,
      since: row.firingSince?.toISOString() ?? null,
      common_factor: row.commonFactor,
      url: linkTo(core, row.filter, at),
      line: `${core.watches()?.webUrl ?? ""}/#watch:${row.id}`,
      reason,
    },
  };
  const messages = row.receivers.map((receiver) => ({
    id: uuidv7(core),
    watchId: row.id,
    receiver,
    body,
    createdAt: new Date(core.clock.now()),
  }));
  await insertMessages(tx, messages);
};

/** Returns the URL of the hosts of a watch on `/fleet` at a past time, or at present if the filter has no history. */
const linkTo = ({ config, watches }: MessageCore, query: string, at: Date) => {
  const { filter } = parseQuery(query, at);
  const params = filterToParams(filter);
  if (hasHistory(config, filter, at)) params.set("at", at.toISOString());
  return `${watches()?.webUrl ?? ""}/fleet${params.size === 0 ? "" : `?${params}`}`;
};

const hasHistory = (config: Core["config"], filter: FleetFilter, at: Date) => {
  const { staleAfterSeconds, forwardingSeconds } = fleetThresholds(config);
  const thresholds = {
    stale_after_seconds: staleAfterSeconds,
    forwarding_seconds: forwardingSeconds,
  };
  return withoutHistory({ filter }, { at: at.getTime(), thresholds }) === undefined;
};

/** The most events of a watch that are returned. */
const eventsMax = 200;

/** Returns one page of the watches, newest first. */
export const browseWatches = async (
  { db, clock }: ReadCore,
  filter: WatchFilter,
  page: PageRequest,
): Promise<Paged<DescribedWatch>> => {
  const { rows, next } = await listWatches(db, filter, page);
  const now = new Date(clock.now());
  return { rows: rows.map((row) => withoutPastSilence(row, now)), next };
};

/** Returns the outage of core during which no watch changes its state; undefined without one. */
export const findHold = async (core: ReadCore): Promise<Outage | undefined> => {
  const { now, outages } = await readCountingRules(core);
  return outageAt(now, outages);
};

/** Returns a watch with its events, newest first. Throws 404 `not_found`. */
export const describeWatch = async (
  { db, clock }: ReadCore,
  id: string,
): Promise<{ watch: DescribedWatch; events: WatchEventRow[] }> => {
  const watch = requireFound(await findWatch(db, id), "watch");
  return {
    watch: withoutPastSilence(watch, new Date(clock.now())),
    events: await findWatchEvents(db, id, eventsMax),
  };
};
