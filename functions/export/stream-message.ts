import type { StoredMsg } from "@nats-io/jetstream";
import type { Msg, MsgHdrs } from "@nats-io/transport-node";

/** A message that a JetStream consumer delivered. */
export interface StreamMessage {
  subject: string;
  headers: MsgHdrs | undefined;
  data: Uint8Array;
  /** The bytes of memory that its envelopes take. */
  heldBytes: number;
  /** Its sequence in the stream. */
  sequence: number;
  /** How often the consumer has delivered it. */
  deliveries: number;
  /** The number of the consumer's deliveries through this one. */
  delivery: number;
  /** When the stream stored it, in milliseconds. */
  storedAt: number;
  /** Acknowledges it, and by the consumer's policy all before it. */
  ack(): void;
}

/** The bytes of memory of a message beside its data. */
const overheadBytes = 512;
const acknowledge = new TextEncoder().encode("+ACK");

/**
 * Reads where a delivered message is in its stream, from the subject that acknowledges it: `$JS.ACK.<stream>.<consumer>.<deliveries of the
 * message>.<sequence>.<delivery>.<nanoseconds>.<pending>`; servers may put a domain and an account before the stream, and a token behind.
 * Throws for another subject.
 */
export const toStreamMessage = (message: Msg): StreamMessage => {
  const tokens = (message.reply ?? "").split(".");
  const at = tokens.length === 9 ? 5 : 7;
  const [deliveries, sequence, delivery] = tokens.slice(at - 1, at + 2).map(Number);
  // As a number, the nanoseconds of a whole millisecond may be those of the one before: then it differs from the time of the stored message.
  const storedAt = Number(tokens[at + 2]?.slice(0, -6));
  if (tokens[1] !== "ACK" || !deliveries || !sequence || !delivery || !storedAt)
    throw new TypeError(`a message of a consumer has the reply ${message.reply}`);
  const { subject, headers, data } = message;
  const heldBytes = heldBytesOf(data, headers);
  return {
    subject,
    headers,
    data,
    heldBytes,
    sequence,
    deliveries,
    delivery,
    storedAt,
    ack: () => void message.respond(acknowledge),
  };
};

/** Returns a message that was read by its sequence. There is nothing to acknowledge. */
export const storedMessage = ({ subject, seq, header, data, time }: StoredMsg): StreamMessage => ({
  subject,
  headers: header,
  data,
  heldBytes: heldBytesOf(data, header),
  sequence: seq,
  deliveries: 0,
  delivery: 0,
  storedAt: time.getTime(),
  ack: () => undefined,
});

const heldBytesOf = (data: Uint8Array, headers: MsgHdrs | undefined): number =>
  Math.max(data.length, Number(headers?.get("Svc-Raw-Bytes") || 0)) + overheadBytes;
