import type { IngestConfig } from "#functions/config/core-config.ts";
import { createObjectAdopter, type ObjectAdopter } from "#functions/ingest/adopt-objects.ts";
import { createObjectWriter } from "#functions/ingest/object-writer.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { claimStore, StoreRefused } from "#functions/objects/claim-store.ts";
import { type ObjectStore, ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import type { ObjectReader } from "#functions/store/ingest/object-data.ts";
import { hasStoredObjects, noteStore } from "#functions/store/ingest/objects.ts";
import { noteSink } from "#functions/store/ingest/sinks.ts";
import type { Log } from "#kit/log.ts";
import type { Metrics } from "../metrics.ts";
import { StartFault } from "../run-configured.ts";
import { zstdCodec } from "./zstd-codec.ts";

type StoreNeeds = Pick<PostgresSinkNeeds, "db" | "clock" | "entropy" | "databaseUrl"> & {
  log: Log;
  lineage: string;
};

/** Opens the store that the configuration names, and reserves it; undefined if rows have the data. */
const openStore = async ({ store: settings }: Pick<IngestConfig, "store">, needs: StoreNeeds) => {
  if (settings.kind === "postgres") return undefined;
  const { location, keys } = settings;
  const { openObjectStore } = await import("../objects/open-store.ts");
  try {
    const store = await openObjectStore(location, { ...needs, keys });
    return { store, storeId: await claim(store, location, needs) };
  } catch (cause) {
    if (!(cause instanceof ObjectStoreUnavailable || cause instanceof StoreRefused)) throw cause;
    throw new StartFault(`SVC_INGEST_STORE: ${cause.message}`, { cause });
  }
};

/** Reserves a store for this database; logs what of it may harm telemetry. */
const claim = async (
  store: ObjectStore,
  location: string,
  { db, log, lineage }: StoreNeeds,
): Promise<number> => {
  const storeId = await noteStore(db, location);
  await claimStore(store, { lineage, hasObjects: await hasStoredObjects(db, storeId) });
  for (const hazard of store.hazards()) log.warn({}, hazard);
  return storeId;
};

/** Opens the sink; returns also what adopts objects: rows may have the data now, and objects had them before. */
export const openSink = async (
  config: Pick<IngestConfig, "store">,
  {
    metrics,
    objects,
    ...needs
  }: Omit<PostgresSinkNeeds, "observe" | "codec" | "objects" | "recover"> & {
    metrics: Metrics;
    log: Log;
    objects: ObjectReader;
  },
): Promise<{ sink: Sink; adopter: ObjectAdopter }> => {
  const { db } = needs;
  await noteSink(db, new Date(needs.clock.now()));
  const lineage = await readLineageName(db);
  const shared = { ...needs, lineage, codec: zstdCodec, observe: metrics.observeIngest };
  const opened = await openStore(config, shared);
  const adopter = createObjectAdopter({
    ...shared,
    objects,
    storeId: opened?.storeId ?? null,
    connect: async () => openCommitClient(await needs.databaseUrl()),
  });
  const { checkRestored: beforeDraw, recover } = adopter;
  const writer = opened && createObjectWriter({ ...shared, ...opened, beforeDraw });
  return { sink: createPostgresSink({ ...shared, objects: writer, recover }), adopter };
};
