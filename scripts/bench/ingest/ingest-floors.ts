import { create } from "@bufbuild/protobuf";
import { from as copyFrom } from "pg-copy-streams";
import { createCommitter } from "../../../functions/ingest/committer.ts";
import { blockCodec } from "../../../functions/node/ingest/block-codec.ts";
import { openCommitClient } from "../../../functions/store/ingest/commit-frames.ts";
import { openCopyClient } from "../../../functions/store/ingest/copy-transaction.ts";
import { runOf } from "../../../functions/store/ingest/envelope-run.ts";
import { systemClock } from "../../../kit/clock.ts";
import { EnvelopeSchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { encodeRow, envelopeColumns } from "./envelope-rows.ts";

const signature = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const trailer = Uint8Array.of(0xff, 0xff);
const chunkBytes = 256 * 1024;

/** Measures rows a second of a loop that only COPYs the same rows, encoded once, `rowsOfBatch` in a transaction. */
export const measureCopyLoop = async (options: {
  url: string;
  seconds: number;
  rowsOfBatch: number;
  payloadBytes: number;
}): Promise<number> => {
  const payload = crypto.getRandomValues(new Uint8Array(options.payloadBytes));
  const queue = { hostId: "spiffe://fleet.bench/floor", queueId: new Uint8Array(16), at: Date.now() };
  const rows = Array.from({ length: options.rowsOfBatch }, (_, index) =>
    encodeRow({ ...queue, sequence: BigInt(2 ** 28 + index), kind: "otel_log", source: "otlp", payload }),
  );
  const copied = Buffer.concat([signature, ...rows, trailer]);
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < copied.length; at += chunkBytes) chunks.push(copied.subarray(at, at + chunkBytes));
  const client = await openCopyClient(options.url);
  const startedAt = performance.now();
  const until = startedAt + options.seconds * 1000;
  let batches = 0;
  while (performance.now() < until) {
    const stream = client.query(copyFrom(`copy ingest_envelope (${envelopeColumns}) from stdin with (format binary)`));
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

/** Measures envelopes a second of `senders` loops that pass one envelope after the other to the group commit, without a network. */
export const measureGroupLoop = async (options: {
  url: string;
  seconds: number;
  senders: number;
  payloadBytes: number;
}): Promise<number> => {
  const committer = createCommitter({
    connect: () => openCommitClient(options.url),
    clock: systemClock,
    codec: blockCodec,
    observe: { batch: () => undefined },
  });
  const payload = crypto.getRandomValues(new Uint8Array(options.payloadBytes));
  const until = performance.now() + options.seconds * 1000;
  let envelopes = 0;
  const loop = async (hostId: string) => {
    const queueId = crypto.getRandomValues(new Uint8Array(16));
    for (let sequence = 1n; performance.now() < until; sequence++) {
      const envelope = create(EnvelopeSchema, { sequence, kind: "otel_log", source: "otlp", payload });
      const run = runOf([envelope]);
      const span = { previousSequence: sequence - 1n, lastSequence: sequence };
      await committer.commit({ hostId, queueId, receivedAt: Date.now(), run, ...span }, options.payloadBytes);
      envelopes++;
    }
  };
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: options.senders }, (_, index) => loop(`spiffe://fleet.bench/floor-${index >> 3}`)),
  );
  const rate = envelopes / ((performance.now() - startedAt) / 1000);
  await committer.close();
  return rate;
};
