import { type BlockCodec, blockEncodings } from "../store/ingest/block-codec.ts";
import { readStoredBlock, type StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import type { StreamMessage } from "./stream-message.ts";

/** A block is part of a frame, whose limit an operator can raise to this. */
const rawBytesMax = 256 * 1024 * 1024;

/**
 * Reads the envelopes of a message (docs/nats.md): of a block, and of the one envelope that each message of earlier versions was. A fence has
 * none; undefined for a message that core did not write. They share no memory with the message: the client's buffer has others beside it.
 */
export const readStreamBlock = (
  { headers, data }: Pick<StreamMessage, "headers" | "data">,
  codec: Pick<BlockCodec, "decompress">,
): readonly StoredEnvelope[] | undefined => {
  if (headers?.has("Svc-Fence")) return [];
  const header = (name: string): string => headers?.get(name) ?? "";
  const receivedAt = microsecondsOf(header("Svc-Received-At"));
  if (receivedAt === undefined) return undefined;
  try {
    const queue = {
      hostId: decodeURI(header("Svc-Host")),
      queueId: Uint8Array.fromHex(header("Svc-Queue")),
      receivedAt,
    };
    const name = header("Svc-Encoding");
    if (name === "") return [{ ...queue, ...readEnvelope(header), payload: new Uint8Array(data) }];
    if (name !== "none" && name !== "zstd") return undefined;
    const rawBytes = Number(header("Svc-Raw-Bytes"));
    if (!(rawBytes <= rawBytesMax)) return undefined;
    const own = name === "none" ? new Uint8Array(data) : data;
    return readStoredBlock({ ...queue, rawBytes, encoding: blockEncodings[name], data: own }, codec);
  } catch {
    return undefined;
  }
};

/** Reads an envelope from the headers of a message of versions before blocks. Throws for others. */
const readEnvelope = (
  header: (name: string) => string,
): Omit<StoredEnvelope, "hostId" | "queueId" | "receivedAt" | "payload"> => {
  const [sequence, kind] = [header("Svc-Sequence"), header("Svc-Kind")];
  if (!/^\d{1,19}$/.test(sequence) || kind === "") throw new TypeError("a message has no sequence or kind");
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
  return seconds === undefined ? undefined : BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(micro);
};
