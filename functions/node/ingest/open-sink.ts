import type { IngestConfig } from "#functions/config/core-config.ts";
import { createObjectWriter, type ObjectObserver } from "#functions/ingest/object-writer.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { noteStore } from "#functions/store/ingest/objects.ts";
import { noteSink } from "#functions/store/ingest/sinks.ts";
import type { Log } from "#kit/log.ts";
import type { Metrics } from "../metrics.ts";
import type { ReloadOptions } from "../reload-files.ts";
import type { NatsFiles } from "./connect-nats.ts";
import { zstdCodec } from "./zstd-codec.ts";

/** Bytes of a message beside the payload of its envelope: headers, and the source and attributes of the envelope. */
const envelopeBytesReserved = 16 * 1024;

/** Loads the files that `openSink` needs, and follows them; null without any. Throws `ConfigError` for one that cannot be read. */
export const followSinkFiles = async (
  { sink }: Pick<IngestConfig, "sink">,
  log: ReloadOptions<unknown>["log"],
): Promise<NatsFiles> => {
  if (sink.kind === "postgres") return null;
  const { followNatsFiles } = await import("./connect-nats.ts");
  return followNatsFiles(sink, log);
};

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

/** Opens the sink that the configuration names; returns also the largest payload that it stores. Imports the client of NATS only for NATS. */
export const openSink = async (
  config: IngestConfig,
  {
    metrics,
    log,
    natsFiles,
    ...needs
  }: Omit<PostgresSinkNeeds, "observe" | "log" | "codec"> & {
    metrics: Metrics;
    log: Log;
    natsFiles: NatsFiles;
  },
): Promise<{ sink: Sink; payloadBytesMax: number }> => {
  const { sink: settings, payloadBytesMax } = config;
  const shared = { ...needs, log, codec: zstdCodec, observe: metrics.observeIngest };
  await noteSink(needs.db, settings.kind, new Date(needs.clock.now()));
  if (settings.kind === "postgres") {
    const objects = await openWriter(config, shared);
    return { sink: createPostgresSink({ ...shared, objects }), payloadBytesMax };
  }
  const { connectNats } = await import("./connect-nats.ts");
  const { createNatsSink } = await import("#functions/ingest/nats-sink/create-nats-sink.ts");
  const observe = { ...metrics.observeIngest, ...metrics.observePublishes };
  const connectCommitter = async () => openCommitClient(await needs.databaseUrl());
  return connectNats(settings, { clock: needs.clock, log, natsFiles }, async (connection) => {
    const sink = await createNatsSink({
      ...shared,
      connection,
      settings,
      observe,
      connectCommitter,
    });
    metrics.gauge("waitingPublishes", () => sink.waiting().messages);
    metrics.gauge("publishLag", () => sink.waiting().seconds);
    const messageBytesMax =
      (connection.info?.max_payload ?? payloadBytesMax) - envelopeBytesReserved;
    if (messageBytesMax < payloadBytesMax)
      log.warn(
        { max_payload: connection.info?.max_payload, payload_bytes_max: messageBytesMax },
        "max_payload of the NATS server lowers SVC_INGEST_MAX_PAYLOAD_BYTES: larger payloads are rejected",
      );
    return { sink, payloadBytesMax: Math.min(payloadBytesMax, messageBytesMax) };
  });
};
