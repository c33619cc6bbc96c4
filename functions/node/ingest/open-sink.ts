import type { IngestConfig } from "#functions/config/core-config.ts";
import { createObjectAdopter } from "#functions/ingest/adopt-objects.ts";
import { createObjectWriter, type ObjectObserver } from "#functions/ingest/object-writer.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { LossObserver } from "#functions/ingest/queue-events.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { claimStore, StoreRefused } from "#functions/objects/claim-store.ts";
import { type ObjectStore, ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { hasStoredObjects, noteStore } from "#functions/store/ingest/objects.ts";
import { noteSink } from "#functions/store/ingest/sinks.ts";
import type { Log } from "#kit/log.ts";
import type { Metrics } from "../metrics.ts";
import { StartFault } from "../run-configured.ts";
import { zstdCodec } from "./zstd-codec.ts";

type StoreNeeds = Pick<PostgresSinkNeeds, "db" | "clock" | "entropy" | "databaseUrl"> & {
  log: Log;
  observe: LossObserver & ObjectObserver;
};

/** Opens the store of objects that the configuration names, with what writes to it and adopts from it; null if rows have the data. */
const openObjects = async ({ store: settings }: Pick<IngestConfig, "store">, needs: StoreNeeds) => {
  if (settings.kind === "postgres") return null;
  const { location, keys } = settings;
  const { openObjectStore } = await import("../objects/open-store.ts");
  try {
    const store = await openObjectStore(location, { ...needs, keys });
    const shared = { ...needs, store, ...(await claim(store, location, needs)) };
    const connect = async () => openCommitClient(await needs.databaseUrl());
    const adopter = createObjectAdopter({ ...shared, connect, codec: zstdCodec });
    const writer = createObjectWriter({ ...shared, beforeDraw: adopter.checkRestored });
    return { ...shared, adopter, writer };
  } catch (cause) {
    if (!(cause instanceof ObjectStoreUnavailable || cause instanceof StoreRefused)) throw cause;
    throw new StartFault(`SVC_INGEST_STORE: ${cause.message}`, { cause });
  }
};

/** An opened store, with what writes to it and adopts from it; null if rows have the data. */
export type OpenedObjects = Awaited<ReturnType<typeof openObjects>>;

/** Reserves a store for this database; logs what of it may harm telemetry. */
const claim = async (store: ObjectStore, location: string, { db, log }: StoreNeeds) => {
  const lineage = await readLineageName(db);
  const storeId = await noteStore(db, location);
  await claimStore(store, { lineage, hasObjects: await hasStoredObjects(db, storeId) });
  for (const hazard of store.hazards()) log.warn({}, hazard);
  return { lineage, storeId };
};

/** Opens the sink; returns also the store that it writes objects to, if it does. */
export const openSink = async (
  config: Pick<IngestConfig, "store">,
  {
    metrics,
    ...needs
  }: Omit<PostgresSinkNeeds, "observe" | "codec" | "objects" | "recover"> & {
    metrics: Metrics;
    log: Log;
  },
): Promise<{ sink: Sink; opened: OpenedObjects }> => {
  await noteSink(needs.db, new Date(needs.clock.now()));
  const shared = { ...needs, codec: zstdCodec, observe: metrics.observeIngest };
  const opened = await openObjects(config, shared);
  const objects = opened?.writer;
  const recover = opened?.adopter.recover;
  return { sink: createPostgresSink({ ...shared, objects, recover }), opened };
};
