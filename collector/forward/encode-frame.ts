import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type ForwardRequest, ForwardRequestSchema, FrameSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import type { QueuedRecord } from "../queue/record.ts";

/** What a frame says beside its envelopes. */
export interface FrameHead {
  hostId: string;
  queueId: Uint8Array<ArrayBuffer>;
  previousSequence: number;
}

/**
 * A request with a frame of these records. The frame is put together from their envelopes as they are stored, and handed on as a field
 * that the message does not know: such a field is written as it stands.
 */
export const encodeFrame = (head: FrameHead, records: readonly QueuedRecord[]): ForwardRequest => {
  const { hostId, queueId, previousSequence } = head;
  const begin = toBinary(
    FrameSchema,
    create(FrameSchema, { hostId, queueId, previousSequence: BigInt(previousSequence) }),
  );
  const length = records.reduce((sum, { envelope }) => sum + envelope.length, begin.length);
  const parts = [new BinaryWriter().uint32(length).finish(), begin, ...records.map(({ envelope }) => envelope)];
  const request = create(ForwardRequestSchema);
  const { number: no } = ForwardRequestSchema.field.frame;
  request.$unknown = [{ no, wireType: WireType.LengthDelimited, data: Buffer.concat(parts) }];
  return request;
};
