import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ForwardRequestSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { frameGrpcMessages } from "#proto/grpc-framing.ts";
import { newQueue } from "../frames.ts";

/** Returns the body of a Forward: Open, and frames of which core rejects each envelope, so that their acks are larger than they. */
export const rejectedFrames = (
  hostId: string,
  { frames, envelopes }: { frames: number; envelopes: number },
) => {
  const queueId = Uint8Array.from(newQueue());
  const encode = (message: NonNullable<MessageInitShape<typeof ForwardRequestSchema>["message"]>) =>
    toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message }));
  const framesOf = Array.from({ length: frames }, (_, index) => {
    const rejected = Array.from({ length: envelopes }, (_, at) => ({
      sequence: BigInt(index * envelopes + at + 1),
      kind: "!",
    }));
    const frame = {
      hostId,
      queueId,
      previousSequence: BigInt(index * envelopes),
      envelopes: rejected,
    };
    return encode({ case: "frame", value: frame });
  });
  const open = encode({ case: "open", value: { hostId, queueId } });
  return frameGrpcMessages([open, ...framesOf]);
};
