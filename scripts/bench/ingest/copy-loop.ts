import { from as copyFrom } from "pg-copy-streams";
import { openCopyClient } from "../../../functions/store/copy-transaction.ts";
import { encodeEnvelopes, envelopeColumns, headerBytes } from "../../../functions/store/envelope-rows.ts";

const signature = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const trailer = Uint8Array.of(0xff, 0xff);
const chunkBytes = 256 * 1024;

/**
 * The floor: rows a second of a loop that does nothing but COPY the same rows, encoded once, `rowsOfBatch` in a transaction.
 */
export const measureCopyLoop = async (options: {
  url: string;
  seconds: number;
  rowsOfBatch: number;
  payloadBytes: number;
}): Promise<number> => {
  const payload = crypto.getRandomValues(new Uint8Array(options.payloadBytes));
  const rows = Array.from({ length: options.rowsOfBatch }, (_, index) => ({
    sequence: BigInt(2 ** 28 + index),
    kind: "otel_log",
    observedAt: { seconds: 1_795_000_000n, nanos: 123_000_000 },
    source: "otlp",
    attributes: {},
    payload,
  }));
  const group = { hostId: "spiffe://fleet.bench/floor", queueId: new Uint8Array(16), receivedAt: Date.now(), rows };
  const copied = Buffer.concat([signature, encodeEnvelopes(group).bytes.subarray(headerBytes), trailer]);
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < copied.length; at += chunkBytes) chunks.push(copied.subarray(at, at + chunkBytes));
  const client = await openCopyClient(options.url);
  const startedAt = performance.now();
  const until = startedAt + options.seconds * 1000;
  let batches = 0;
  while (performance.now() < until) {
    const stream = client.query(
      copyFrom(`copy ingest_envelope (${envelopeColumns.join(",")}) from stdin with (format binary)`),
    );
    await new Promise<void>((resolve, reject) => {
      stream.once("finish", resolve);
      stream.once("error", reject);
      for (const chunk of chunks) stream.write(chunk);
      stream.end();
    });
    batches++;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  await client.end();
  return (batches * options.rowsOfBatch) / seconds;
};
