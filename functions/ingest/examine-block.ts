import { fromBinary } from "@bufbuild/protobuf";
import { equalBytes } from "#kit/bytes.ts";
import {
  type Block,
  BlockEncoding,
  type Envelope,
  EnvelopesSchema,
  type Frame,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { Problem } from "../problems.ts";
import { emptyRun } from "../store/ingest/envelope-run.ts";
import type { BlockCodec } from "../store/ingest/stored-envelope.ts";
import {
  checkClaims,
  type ExaminedFrame,
  envelopeOverheadBytes,
  examineFrame,
  type FrameLimits,
  heldBytes,
} from "./examine-frame.ts";
import { checkLimits } from "./limit-messages.ts";
import { frameOf, scanEnvelopes } from "./scan-envelopes.ts";

/** The encodings of blocks that core reads. */
export const acceptedEncodings = [BlockEncoding.NONE, BlockEncoding.ZSTD];

/** The context of examining what a caller has sent. */
interface Examination {
  /** The caller's. */
  identity: string;
  /** `frameBytesMax` bounds the envelopes before compression. */
  limits: FrameLimits & { frameBytesMax: number };
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  codec: Pick<BlockCodec, "decompress" | "free">;
}

/** Examines a frame or a block. */
export const examineSent = (sent: Frame | Block, examination: Examination): ExaminedFrame => {
  if (sent.$typeName === "svc.ingest.v1.Block") return examineBlock(sent, examination);
  return examineFrame(sent, examination.identity, examination.limits, examination.receivedAt);
};

/**
 * Examines a block as the frame of its envelopes, and keeps the bytes of its sender if core stores all of them. Throws as `examineFrame`
 * does: also `frame_too_large` for more than `frameBytesMax`, before anything is decompressed, and `frame_invalid` for data that are not
 * what the block says of them.
 */
export const examineBlock = (sent: Block, examination: Examination): ExaminedFrame => {
  const { identity, limits, codec } = examination;
  checkClaims(sent, identity, limits);
  const bytes = decode(sent, limits.frameBytesMax, codec);
  try {
    return examineContent(sent, bytes, examination);
  } catch (error) {
    if (bytes !== sent.data) codec.free(bytes);
    throw error;
  }
};

const examineContent = (
  sent: Block,
  bytes: Uint8Array,
  examination: Examination,
): ExaminedFrame => {
  const { identity, limits, receivedAt, codec } = examination;
  const { previousSequence } = sent;
  // Outlives the message that it is a part of.
  const queueId = Uint8Array.from(sent.queueId);
  const read = scanEnvelopes(bytes, limits, previousSequence);
  const examined = read
    ? frameOf(read, { hostId: identity, queueId, previousSequence, receivedAt })
    : examineFrame(
        { ...sent, queueId, envelopes: decodeEnvelopes(bytes) },
        identity,
        limits,
        receivedAt,
      );
  const { frame, rejected, discarded } = examined;
  if (
    frame.lastSequence !== sent.lastSequence ||
    frame.run.count + rejected.length + discarded.length !== sent.envelopes
  )
    throw invalid("last_sequence or envelopes is not that of the block's data");
  // Of other data, such as fields that core does not know, only what it has checked is stored.
  const isWhole = frame.run.bytes === bytes || equalBytes(frame.run.bytes, bytes);
  if (!isWhole || sent.encoding !== BlockEncoding.ZSTD) return examined;
  codec.free(bytes);
  const { bytes: none } = emptyRun();
  const run = { ...frame.run, bytes: none, rawBytes: sent.rawBytes, compressed: [sent.data] };
  return { ...examined, frame: { ...frame, run }, bytes: heldBytes(envelopeOverheadBytes, run) };
};

const decode = (
  { rawBytes, encoding, data }: Block,
  bytesMax: number,
  codec: Pick<BlockCodec, "decompress">,
) => {
  if (rawBytes > bytesMax) throw new Problem("frame_too_large");
  if (encoding === BlockEncoding.NONE && data.length === rawBytes) return data;
  const bytes = encoding === BlockEncoding.ZSTD ? codec.decompress(data, rawBytes) : null;
  if (bytes === null) throw invalid("a block's data are not raw_bytes in its encoding");
  return bytes;
};

const envelopesWire = createWireCheck(EnvelopesSchema);

const decodeEnvelopes = (bytes: Uint8Array): Envelope[] => {
  checkLimits(envelopesWire.check, bytes);
  try {
    return fromBinary(EnvelopesSchema, bytes, { readUnknownFields: false }).envelopes;
  } catch (cause) {
    throw invalid("a block's data are no envelopes", cause);
  }
};

const invalid = (detail: string, cause?: unknown): Problem =>
  new Problem("frame_invalid", { detail, cause });
