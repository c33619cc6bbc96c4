import type { Envelope } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { type BlockCodec, blockEncodings, splitDigest } from "./block-codec.ts";
import { envelopesOf } from "./envelope-run.ts";

/** A stored envelope. */
export interface StoredEnvelope {
  hostId: string;
  queueId: Uint8Array;
  sequence: bigint;
  kind: string;
  /** Microseconds since the Unix epoch; null when the sender gave no time. */
  observedAt: bigint | null;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
  source: string;
  attributes: Readonly<Record<string, string>>;
  payload: Uint8Array;
}

/** The memory that an envelope takes beside its payload: a line's is three times the line. */
export const objectBytes = 600;

/** A block whose data cannot be read: the disk of the database returned other bytes than were stored. */
export class BlockCorrupt extends Error {
  override readonly name = "BlockCorrupt";
}

/** Which block is damaged. */
export interface DamagedBlock {
  hostId: string;
  queueId: Uint8Array;
  firstSequence: bigint;
  lastSequence: bigint;
  envelopes: number;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
}

/** Names a damaged block in a log. */
export const describeDamage = (block: DamagedBlock): string => {
  const { hostId, queueId, firstSequence, lastSequence, envelopes, receivedAt } = block;
  const received = new Date(Number(receivedAt / 1000n)).toISOString();
  return `${envelopes} envelopes, ${firstSequence} to ${lastSequence} of queue ${queueId.toHex()}, host ${hostId}, received at ${received}`;
};

/** A block as `ingest_block` has it. */
export interface StoredBlock {
  hostId: string;
  queueId: Uint8Array;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
  rawBytes: number;
  encoding: number;
  data: Uint8Array;
}

/** Reads the envelopes of a block. Throws `BlockCorrupt`. */
export const readStoredBlock = (
  block: StoredBlock,
  codec: Pick<BlockCodec, "decompress">,
): StoredEnvelope[] => {
  const { hostId, queueId, receivedAt } = block;
  return decodeEnvelopes(decodeData(block, codec)).map(
    ({ sequence, kind, observedAt, source, attributes, payload }): StoredEnvelope => ({
      hostId,
      queueId,
      sequence,
      kind,
      receivedAt,
      source,
      attributes,
      payload,
      observedAt: observedAt
        ? observedAt.seconds * 1_000_000n + BigInt(Math.floor(observedAt.nanos / 1000))
        : null,
    }),
  );
};

/** Reads a block as `readStoredBlock` does, and checks its digest: zstd alone does not notice every damage. Throws `BlockCorrupt`. */
export const readCheckedBlock = (
  block: StoredBlock & { digest: Uint8Array },
  codec: Pick<BlockCodec, "decompress" | "digest">,
): StoredEnvelope[] => {
  const { sha256, isStored } = splitDigest(block.digest);
  const raw = decodeData(block, codec);
  if (codec.digest(isStored ? block.data : raw).toHex() !== sha256.toHex())
    throw new BlockCorrupt("a stored block has another digest");
  return readStoredBlock({ ...block, encoding: blockEncodings.none, data: raw }, codec);
};

const decodeEnvelopes = (bytes: Uint8Array): Envelope[] => {
  try {
    return envelopesOf({ bytes });
  } catch (cause) {
    throw new BlockCorrupt("a stored block cannot be decoded", { cause });
  }
};

const decodeData = (
  { rawBytes, encoding, data }: Pick<StoredBlock, "rawBytes" | "encoding" | "data">,
  codec: Pick<BlockCodec, "decompress">,
): Uint8Array => {
  const bytes = encoding === blockEncodings.zstd ? codec.decompress(data, rawBytes) : data;
  if (bytes?.length !== rawBytes) throw new BlockCorrupt("a stored block cannot be decompressed");
  return bytes;
};
