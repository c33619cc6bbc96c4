/**
 * Reads the stored telemetry of a host, oldest first. Holds at most one block in memory: it finds the newest envelopes by counting
 * backwards, without keeping them. Yields an empty batch between blocks, so that a reader can stop at any time, and lets the event loop run
 * within a block, however much text a host packed into few bytes.
 */

import type { Core } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import { findIdentity } from "#functions/store/certificate/identities.ts";
import { findOldestXid } from "#functions/store/database/statements.ts";
import {
  type BlockPlace,
  type BlockSearch,
  findBlockPlaces,
  findFirstReceipt,
  type HostRange,
  readBlockAt,
} from "#functions/store/ingest/host-blocks.ts";
import { BlockCorrupt, type StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import { readHostRows } from "#functions/store/rows/read-host-rows.ts";
import { recordTexts } from "#proto/telemetry/record-texts.ts";
import { recordOperatorAction } from "../audit/audit-log.ts";
import type { RequestedExport } from "../audit/audited-export.ts";

/** The telemetry of a host to read. */
export interface TelemetryQuery extends Pick<HostRange, "from" | "to" | "kind"> {
  /** Envelopes with a line that contains this, in any case; empty: all. */
  grep: string;
  /** Only the newest so many envelopes; null: all of the range. */
  limit: number | null;
  /** Continues with what is stored from now on. */
  follow: boolean;
}

/** An envelope with its lines, or a damaged block. */
export type ReadTelemetry = { envelope: StoredEnvelope; texts: string[] } | { damaged: BlockPlace };

type Needs = Pick<Core, "db" | "clock" | "entropy" | "codec" | "objects">;

/** Returns an envelope with its lines if the query selects it. */
type Select = (envelope: StoredEnvelope) => Promise<ReadTelemetry | undefined>;

/** What a query reads: the blocks of a range that were committed within `xids`, and the envelopes of them that it selects. */
interface Reading {
  range: HostRange;
  xids: BlockSearch["xids"];
  select: Select;
}

const placesOfPage = 500;
/** A batch ends after so many bytes of payload. */
const batchBytes = 128 * 1024;
const followMs = 1_000;
/** The event loop runs after so many bytes of payload and of text. */
const turnBytes = 64 * 1024;

/** Reads the telemetry of an enrolled host, audited as `telemetry.read` before the first envelope. Throws 404 `not_found`. */
export const readHostTelemetry = async (
  core: Needs,
  identityId: string,
  query: TelemetryQuery,
  audit: RequestedExport,
): Promise<{ host: string; batches: AsyncGenerator<ReadTelemetry[], void, void> }> => {
  const identity = requireFound(await findIdentity(core.db, identityId), "collector");
  const from = query.from?.toISOString() ?? null;
  const to = query.to?.toISOString() ?? null;
  await core.db.transaction((tx) =>
    recordOperatorAction(tx, core, audit, {
      action: "telemetry.read",
      target: { type: "collector_identity", id: identityId },
      details: { identity: identity.identity, filters: { ...audit.asked, from, to } },
    }),
  );
  return { host: identity.identity, batches: batchesOf(core, identity.identity, query) };
};

async function* batchesOf(
  core: Needs,
  hostId: string,
  query: TelemetryQuery,
): AsyncGenerator<ReadTelemetry[], void> {
  const { from, to, kind, limit, follow } = query;
  const range: HostRange = { hostId, from, to, kind };
  const select = selectionOf(core, query);
  // Transactions before the horizon are read as the past, later ones as they commit.
  const horizon = follow ? await findOldestXid(core.db) : null;
  const xids = horizon === null ? undefined : { from: null, to: horizon };
  if (limit === null) {
    yield* batchRows(rowsOf(core, range), select, 0);
    yield* readPlaces(core, placesOf(core, range, { order: "oldest", xids }), select, 0);
  } else yield* readNewest(core, { range, xids, select }, { ...query, limit });
  if (horizon !== null) yield* followBlocks(core, range, select, horizon);
}

/** Rows of an earlier version have no index by host, so they are searched only for a range with a start. */
const rowsOf = ({ db }: Needs, range: HostRange) =>
  range.from === null ? [] : readHostRows(db, range);

/** Counts backwards to where the newest `limit` envelopes begin, and reads from there. */
async function* readNewest(
  core: Needs,
  { range, xids, select }: Reading,
  { limit, ...query }: Pick<TelemetryQuery, "kind" | "grep"> & { limit: number },
): AsyncGenerator<ReadTelemetry[], void> {
  let inBlocks = 0;
  let oldest: BlockPlace | undefined;
  let newest: BlockPlace | undefined;
  for await (const place of placesOf(core, range, { order: "newest", xids })) {
    oldest = place;
    newest ??= place;
    inBlocks += await countSelected(core, place, select, query);
    if (inBlocks >= limit) break;
    yield [];
  }
  if (inBlocks < limit) {
    let inRows = 0;
    for await (const page of rowsOf(core, range)) {
      inRows += await countMatching(page, select);
      yield [];
    }
    yield* batchRows(rowsOf(core, range), select, Math.max(0, inRows - (limit - inBlocks)));
  }
  if (oldest) {
    const places = placesOf(core, range, { order: "oldest", xids, from: oldest, upTo: newest });
    yield* readPlaces(core, places, select, Math.max(0, inBlocks - limit));
  }
}

const selectionOf = ({ clock }: Needs, { kind, grep }: TelemetryQuery): Select => {
  let scanned = 0;
  return async (envelope) => {
    if (kind !== null && envelope.kind !== kind) return undefined;
    const texts: string[] = [];
    for (const step of recordTexts(envelope, grep)) {
      scanned += typeof step === "number" ? step : step.length;
      if (typeof step === "string") texts.push(step);
      if (scanned < turnBytes) continue;
      scanned = 0;
      await clock.sleep(0);
    }
    return grep !== "" && texts.length === 0 ? undefined : { envelope, texts };
  };
};

/** Yields the positions of blocks in a range, reading the database in pages. */
async function* placesOf(
  { db }: Needs,
  range: HostRange,
  {
    from,
    ...search
  }: Pick<BlockSearch, "order" | "xids" | "upTo"> & { from?: BlockPlace | undefined },
): AsyncGenerator<BlockPlace, void, void> {
  if (from) yield from;
  for (let beyond = from; ; ) {
    const places = await findBlockPlaces(db, range, { ...search, beyond, limit: placesOfPage });
    yield* places;
    beyond = places.at(-1);
    if (places.length < placesOfPage) return;
  }
}

/** Returns how many envelopes of a block are selected: of a damaged one, all. */
const countSelected = async (
  core: Needs,
  place: BlockPlace,
  select: Select,
  { kind, grep }: Pick<TelemetryQuery, "kind" | "grep">,
) => {
  if (grep === "" && (kind === null || place.kinds.length === 1)) return place.envelopes;
  const envelopes = await readPlace(core, place);
  return envelopes === "damaged" ? place.envelopes : countMatching(envelopes, select);
};

const countMatching = async (envelopes: readonly StoredEnvelope[], select: Select) => {
  let selected = 0;
  for (const envelope of envelopes) if ((await select(envelope)) !== undefined) selected++;
  return selected;
};

const readPlace = async (core: Needs, place: BlockPlace): Promise<StoredEnvelope[] | "damaged"> => {
  try {
    return await readBlockAt(core, place);
  } catch (cause) {
    if (cause instanceof BlockCorrupt) return "damaged";
    throw cause;
  }
};

/** Reads blocks, without the first `skip` selected envelopes of the first block. */
async function* readPlaces(
  core: Needs,
  places: AsyncIterable<BlockPlace>,
  select: Select,
  skip: number,
): AsyncGenerator<ReadTelemetry[], void, void> {
  let toSkip = skip;
  for await (const place of places) {
    const envelopes = await readPlace(core, place);
    if (envelopes === "damaged") yield [{ damaged: place }];
    else yield* batches(envelopes, select, toSkip);
    toSkip = 0;
  }
}

async function* batchRows(
  rows: AsyncIterable<readonly StoredEnvelope[]> | Iterable<readonly StoredEnvelope[]>,
  select: Select,
  skip: number,
): AsyncGenerator<ReadTelemetry[], void, void> {
  let toSkip = skip;
  for await (const page of rows) {
    yield* batches(page, select, toSkip);
    if (toSkip > 0) toSkip -= Math.min(toSkip, await countMatching(page, select));
  }
}

/** Yields the selected envelopes in batches, without the first `skip`; the last batch may be empty. */
async function* batches(
  envelopes: readonly StoredEnvelope[],
  select: Select,
  skip: number,
): AsyncGenerator<ReadTelemetry[], void, void> {
  let batch: ReadTelemetry[] = [];
  let toSkip = skip;
  let bytes = 0;
  for (const envelope of envelopes) {
    const selected = await select(envelope);
    if (selected === undefined || toSkip-- > 0) continue;
    batch.push(selected);
    bytes += envelope.payload.length;
    if (bytes < batchBytes) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  yield batch;
}

/**
 * Yields what is stored from a horizon on, once every transaction before it has ended, so that nothing is missed or repeated. Searches by
 * the rows already found, not by a clock: while an old transaction is open, blocks wait for any time.
 */
async function* followBlocks(
  core: Needs,
  range: HostRange,
  select: Select,
  horizon: bigint,
): AsyncGenerator<ReadTelemetry[], void> {
  for (let from = horizon; ; ) {
    yield [];
    await core.clock.sleep(followMs);
    const xids = { from, to: await findOldestXid(core.db) };
    if (xids.to === from) continue;
    from = xids.to;
    const first = await findFirstReceipt(core.db, xids);
    if (first === null) continue;
    const since = range.from && range.from > first ? range.from : first;
    yield* readPlaces(
      core,
      placesOf(core, { ...range, from: since }, { order: "oldest", xids }),
      select,
      0,
    );
  }
}
