/** What a planted fault may change: each is a file of `plants/`, named as the mistake. */
import { create } from "@bufbuild/protobuf";
import type { CountedQueue } from "#functions/domain/telemetry/stream-range.ts";
import type { FrameOutcome } from "#functions/store/ingest/decide-batch.ts";
import { envelopesOf, runOf } from "#functions/store/ingest/envelope-run.ts";
import { EnvelopeSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { BackendFault } from "./backend.ts";
import type { AccountsFault, RegisterFault, SinkFault } from "./core.ts";
import type { ServerFault } from "./database.ts";
import { queueRow } from "./database.ts";
import type { SourceFault } from "./exporter.ts";
import type { HostFault } from "./host.ts";
import type { HourFault } from "./hour-laws.ts";
import type { StreamFault } from "./jetstream.ts";
/** A mistake. */
export interface Plant extends HostFault {
  sink?: SinkFault;
  register?: RegisterFault;
  accounts?: AccountsFault;
  server?: ServerFault;
  missesRestores?: boolean;
  backend?: BackendFault;
  source?: SourceFault;
  streams?: StreamFault;
  /** Of the law of hours. */
  hour?: HourFault;
}

/** Core never answers an account. */
export const neverAnswered: Plant = {
  accounts: () => ({ accept: () => new Promise(() => undefined) }),
};

/** Changes what a stream has of a queue: `row` names it. */
export const counting =
  (change: (counted: CountedQueue, row: string) => CountedQueue): SinkFault =>
  ({ countedOf, ...sink }) => {
    if (countedOf === undefined) return sink;
    const changed = async (queue: Parameters<typeof countedOf>[0]) => {
      const counted = await countedOf(queue);
      return counted && change(counted, queueRow({ ...queue, queueHex: queue.queueId.toHex() }));
    };
    return { ...sink, countedOf: changed };
  };

type Frame = Parameters<ReturnType<SinkFault>["commit"]>[0];

/** Returns the answer for a frame that is stored. */
export const committedWhole = ({ previousSequence, lastSequence, run }: Frame): FrameOutcome => ({
  outcome: "committed",
  before: previousSequence,
  cursor: lastSequence,
  storedRows: run.count,
  storedBytes: run.payloadBytes,
});

/** Returns a frame with its envelopes numbered from a cursor on. */
export const numberedFrom = (frame: Frame, cursor: bigint): Frame => {
  const envelopes = envelopesOf(frame.run).map((envelope, index) =>
    create(EnvelopeSchema, { ...envelope, sequence: cursor + 1n + BigInt(index) }),
  );
  const run = runOf(envelopes);
  return { ...frame, run, previousSequence: cursor, lastSequence: run.lastSequence };
};
