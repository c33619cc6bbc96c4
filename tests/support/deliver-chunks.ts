import { parseExportConfig } from "#functions/config/export-config.ts";
import { createDelivery } from "#functions/export/create-delivery.ts";
import type { ExportChunk, ExportSource } from "#functions/export/source.ts";
import type { Database } from "#functions/store/database/database.ts";
import type { StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { logRecordsOf } from "./ingest/otlp-backend.ts";

/** Returns the envelopes of each queue of a chunk. */
export const envelopesIn = ({ queues }: Pick<ExportChunk, "queues">): StoredEnvelope[][] =>
  queues.map((queue) => queue.flatMap((block) => block.unpack()));

const { config } = parseExportConfig(
  { SVC_DATABASE_URL: "postgres://unused/svc", SVC_EXPORT_ENDPOINT: "http://unused:4318" },
  () => "",
);

/** Creates the delivery of an export to a backend that accepts everything. */
export const createTestDelivery = (db: Database) => {
  const lines: string[] = [];
  const damaged: string[] = [];
  const delivery = createDelivery({
    db,
    config,
    clock: systemClock,
    entropy: systemEntropy,
    log: {
      warn: () => undefined,
      error: (fields) => void damaged.push(String(Object.entries(fields)[1])),
    },
    observe: { request: () => undefined, state: () => undefined },
    client: {
      async send(_, body) {
        for (const { record } of logRecordsOf(body)) lines.push(String(record.body?.value.value));
        return { status: "accepted", rejectedItems: 0, message: "" };
      },
    },
  });
  return {
    lines,
    /** The damaged blocks that it has logged. */
    damaged,
    /** Delivers and commits what the source has. */
    async deliverNew(source: Pick<ExportSource, "read">) {
      const { signal } = new AbortController();
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read())
        await chunk.commit(await delivery.deliverAll(chunk.queues.flat(), signal));
    },
  };
};
