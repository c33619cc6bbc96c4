import type { IngestConfig } from "#functions/config/core-config.ts";
import { createObjectWriter, type ObjectObserver } from "#functions/ingest/object-writer.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { noteStore } from "#functions/store/ingest/objects.ts";
import { noteSink } from "#functions/store/ingest/sinks.ts";
import type { Metrics } from "../metrics.ts";
import { zstdCodec } from "./zstd-codec.ts";

/** Opens the store of objects that the configuration names, and creates what writes to it; undefined if rows have the data. */
const openWriter = async (
  { store: settings }: Pick<IngestConfig, "store">,
  needs: Pick<PostgresSinkNeeds, "db" | "clock" | "entropy"> & { observe: ObjectObserver },
): Promise<PostgresSinkNeeds["objects"]> => {
  if (settings.kind === "postgres") return undefined;
  const { db } = needs;
  const { location } = settings;
  const { openObjectStore } = await import("../objects/open-store.ts");
  const store = await openObjectStore(location, needs);
  const lineage = await readLineageName(db);
  return createObjectWriter({ ...needs, store, lineage, storeId: await noteStore(db, location) });
};

/** Opens the sink. */
export const openSink = async (
  config: Pick<IngestConfig, "store">,
  {
    metrics,
    ...needs
  }: Omit<PostgresSinkNeeds, "observe" | "codec" | "objects"> & {
    metrics: Metrics;
  },
): Promise<Sink> => {
  await noteSink(needs.db, new Date(needs.clock.now()));
  const shared = { ...needs, codec: zstdCodec, observe: metrics.observeIngest };
  return createPostgresSink({ ...shared, objects: await openWriter(config, shared) });
};
