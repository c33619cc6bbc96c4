import {
  type BlockCodec,
  BlockCorrupt,
  blockEncodings,
  type DamagedBlock,
  describeDamage,
  readStoredBlock,
  type StoredEnvelope,
} from "../store/ingest/stored-envelope.ts";
import type { StreamMessage } from "./stream-pulls.ts";

/** A block is part of a frame, whose limit an operator can raise to this. */
const rawBytesMax = 256 * 1024 * 1024;

/**
 * Reads the envelopes of a message (docs/nats.md): of a block, or the one envelope of a message of earlier versions. A fence has none, and a
 * damaged message none either, which is passed to `onDamaged`. Returns undefined for a message that core did not write. The envelopes share no
 * memory with the message, because the client's buffer has other messages too.
 */
export const readStreamBlock = (
  { headers, data }: Pick<StreamMessage, "headers" | "data">,
  codec: Pick<BlockCodec, "decompress">,
  onDamaged = (block: DamagedBlock): void => {
    throw new BlockCorrupt(describeDamage(block));
  },
): readonly StoredEnvelope[] | undefined => {
  if (headers?.has("Svc-Fence")) return [];
  const header = (name: string) => headers?.get(name) ?? "";
  const block = readPlace(header);
  if (block === undefined) return undefined;
  const { hostId, queueId, receivedAt } = block;
  try {
    const name = header("Svc-Encoding");
    if (name === "")
      return [
        { hostId, queueId, receivedAt, ...readEnvelope(header), payload: new Uint8Array(data) },
      ];
    const rawBytes = Number(header("Svc-Raw-Bytes"));
    if ((name !== "none" && name !== "zstd") || !(rawBytes <= rawBytesMax))
      throw new BlockCorrupt(name);
    const own = name === "none" ? new Uint8Array(data) : data;
    return readStoredBlock(
      { ...block, rawBytes, encoding: blockEncodings[name], data: own },
      codec,
    );
  } catch {
    onDamaged(block);
    return [];
  }
};

/** Reads which envelopes a message has; undefined if core did not write it. */
const readPlace = (header: (name: string) => string): DamagedBlock | undefined => {
  const receivedAt = microsecondsOf(header("Svc-Received-At"));
  const host = header("Svc-Host");
  const queue = header("Svc-Queue");
  const sequence = header("Svc-Sequence");
  if (receivedAt === undefined || host === "" || queue === "") return undefined;
  try {
    return {
      hostId: decodeURI(host),
      queueId: Uint8Array.fromHex(queue),
      firstSequence: BigInt(header("Svc-First-Sequence") || sequence),
      lastSequence: BigInt(header("Svc-Last-Sequence") || sequence),
      envelopes: Number(header("Svc-Envelopes")) || 1,
      receivedAt,
    };
  } catch {
    return undefined;
  }
};

/** Reads an envelope from the headers of a message of versions before blocks. Throws for others. */
const readEnvelope = (
  header: (name: string) => string,
): Omit<StoredEnvelope, "hostId" | "queueId" | "receivedAt" | "payload"> => {
  const sequence = header("Svc-Sequence");
  const kind = header("Svc-Kind");
  if (!/^\d{1,19}$/.test(sequence) || kind === "")
    throw new TypeError("a message has no sequence or kind");
  return {
    sequence: BigInt(sequence),
    kind,
    observedAt: microsecondsOf(header("Svc-Observed-At")) ?? null,
    source: decodeURI(header("Svc-Source")),
    attributes: JSON.parse(header("Svc-Attributes") || "{}") as Record<string, string>,
  };
};

const time = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z$/;

/** Parses RFC 3339 in UTC with microseconds; undefined for another text. */
const microsecondsOf = (text: string): bigint | undefined => {
  const [, seconds, micro = "0"] = time.exec(text) ?? [];
  return seconds === undefined
    ? undefined
    : BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(micro);
};
