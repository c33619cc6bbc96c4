import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import type { StreamMessage } from "./stream-message.ts";

/**
 * Reads the envelope of a message (docs/nats.md). Returns null for a fence, and undefined for a message that core did not write. The payload
 * is a copy: the client's buffer has the messages beside it.
 */
export const readStreamEnvelope = ({
  headers,
  data,
}: Pick<StreamMessage, "headers" | "data">): StoredEnvelope | null | undefined => {
  if (headers?.has("Svc-Fence")) return null;
  const fact = (name: string): string => headers?.get(name) ?? "";
  const [sequence, queue, kind] = [fact("Svc-Sequence"), fact("Svc-Queue"), fact("Svc-Kind")];
  const receivedAt = microsecondsOf(fact("Svc-Received-At"));
  if (!/^\d{1,19}$/.test(sequence) || kind === "" || receivedAt === undefined) return undefined;
  try {
    return {
      hostId: decodeURI(fact("Svc-Host")),
      queueId: Uint8Array.fromHex(queue),
      sequence: BigInt(sequence),
      kind,
      observedAt: microsecondsOf(fact("Svc-Observed-At")) ?? null,
      receivedAt,
      source: decodeURI(fact("Svc-Source")),
      attributes: JSON.parse(fact("Svc-Attributes") || "{}") as Record<string, string>,
      payload: new Uint8Array(data),
    };
  } catch {
    return undefined;
  }
};

const time = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z$/;

/** Parses RFC 3339 in UTC with microseconds; undefined for another text. */
const microsecondsOf = (text: string): bigint | undefined => {
  const [, seconds, micro = "0"] = time.exec(text) ?? [];
  return seconds === undefined ? undefined : BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(micro);
};
