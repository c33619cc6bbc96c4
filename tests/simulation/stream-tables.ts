/** What JetStream has stored, as the oracle looks at it. */
import { MsgHdrsImpl } from "@nats-io/transport-node";
import { readStreamEnvelope } from "../../functions/export/stream-envelope.ts";
import type { JetStream } from "./jetstream.ts";
import type { Tables } from "./tables.ts";

/** Returns the tables with the envelopes of the stream in place of their own. */
export const withStreamed = (tables: Tables, jetstream: JetStream): Tables => ({
  ...tables,
  envelopes: (jetstream.streams.get("SVC_INGEST")?.messages ?? []).flatMap(({ seq, headers, data }) => {
    const envelope = readStreamEnvelope({ headers: MsgHdrsImpl.decode(headers), data });
    if (!envelope) return [];
    const { hostId, queueId, sequence, payload } = envelope;
    const text = Buffer.from(payload).toString();
    return [{ hostId, queueHex: queueId.toHex(), sequence: Number(sequence), text, xid: seq }];
  }),
});
