import { createCommitter } from "../../../functions/ingest/committer.ts";
import { openCommitClient } from "../../../functions/store/commit-frames.ts";
import { encodeEnvelopes } from "../../../functions/store/envelope-rows.ts";
import { systemClock } from "../../../kit/clock.ts";

/**
 * The floor of small senders: envelopes a second of `senders` loops that hand one envelope after the other to the group commit, in
 * this process, without a wire between.
 */
export const measureGroupLoop = async (options: {
  url: string;
  seconds: number;
  senders: number;
  payloadBytes: number;
}): Promise<number> => {
  const committer = createCommitter({
    connect: () => openCommitClient(options.url),
    clock: systemClock,
    observe: { batch: () => undefined },
  });
  const payload = crypto.getRandomValues(new Uint8Array(options.payloadBytes));
  const until = performance.now() + options.seconds * 1000;
  let envelopes = 0;
  const loop = async (hostId: string) => {
    const queueId = crypto.getRandomValues(new Uint8Array(16));
    for (let sequence = 1n; performance.now() < until; sequence++) {
      const row = { sequence, kind: "otel_log", source: "otlp", attributes: {}, payload };
      const rows = encodeEnvelopes({ hostId, queueId, receivedAt: Date.now(), rows: [row] });
      const span = { previousSequence: sequence - 1n, lastSequence: sequence };
      await committer.commit({ hostId, queueId, rows, ...span }, options.payloadBytes);
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
