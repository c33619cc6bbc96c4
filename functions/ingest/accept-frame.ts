import { create } from "@bufbuild/protobuf";
import { type Ack, AckSchema, RejectionSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import type { FrameOutcome, FrameToCommit } from "../store/ingest/decide-batch.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { ExaminedFrame } from "./examine-frame.ts";
import type { LossObserver } from "./queue-events.ts";
import type { Sink } from "./sink.ts";

/** Receives facts about ingest. Labels never contain a host. */
export interface IngestObserver extends LossObserver {
  /** A frame was committed. All figures count what this commit consumed: a resend counts nothing. */
  committed(facts: {
    envelopes: number;
    bytes: number;
    discarded: number;
    rejected: readonly string[];
  }): void;
  /** A frame or a stream was rejected. */
  refused(reason: string): void;
}

/**
 * Creates the function that commits a frame and resolves with its ack. It reserves the frame's bytes at once, or throws `overloaded`; it
 * throws `sequence_gap` with the cursor when an earlier frame is missing, `session_superseded` when another one has opened the queue.
 */
export const createFrameAcceptor =
  ({
    budget,
    sink,
    observe,
  }: {
    budget: ByteBudget;
    sink: Pick<Sink, "commit">;
    observe: Pick<IngestObserver, "committed">;
  }): ((examined: ExaminedFrame) => Promise<Ack>) =>
  async (examined) => {
    const { frame, bytes } = examined;
    const { hostId } = frame;
    if (!budget.reserve(bytes, "frame", hostId)) {
      examined.release?.();
      throw new Problem("overloaded");
    }
    try {
      const committed = await sink.commit(withUnstored(examined), bytes);
      const { outcome, before, cursor } = committed;
      if (outcome === "sequence_gap") throw new Problem("sequence_gap", { extensions: { cursor } });
      if (outcome === "session_superseded") throw new Problem("session_superseded");
      if (cursor > before) observe.committed(consumedBy(committed, examined));
      const rejected = examined.rejected.map((rejection) => create(RejectionSchema, rejection));
      return create(AckSchema, { queueId: frame.queueId, ackedThrough: cursor, rejected });
    } finally {
      budget.release(bytes, "frame", hostId);
      examined.release?.();
    }
  };

const withUnstored = ({ frame, rejected, discarded }: ExaminedFrame): FrameToCommit =>
  rejected.length === 0 && discarded.length === 0
    ? frame
    : { ...frame, unstored: { rejected: rejected.map(({ sequence }) => sequence), discarded } };

/** Counts what of a frame was above the cursor, and so was consumed by this commit and by no earlier one. */
const consumedBy = (
  { before, storedRows, storedBytes }: FrameOutcome,
  { rejected, discarded }: ExaminedFrame,
) => ({
  envelopes: storedRows,
  bytes: storedBytes,
  discarded: discarded.filter((sequence) => sequence > before).length,
  rejected: rejected.filter(({ sequence }) => sequence > before).map(({ code }) => code),
});
