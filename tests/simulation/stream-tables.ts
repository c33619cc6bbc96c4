/** What JetStream has stored, as the oracle looks at it. */
import { MsgHdrsImpl } from "@nats-io/transport-node";
import { readStreamBlock } from "#functions/export/stream-block.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { JetStream, StreamMessageStored } from "./jetstream.ts";
import type { StoredEnvelope, Tables } from "./tables.ts";

/** Returns the tables with the envelopes of the stream in place of their own. */
export const withStreamed = (tables: Tables, jetstream: JetStream): Tables => ({
  ...tables,
  envelopes: streamedEnvelopes(jetstream.streams.get("SVC_INGEST")?.messages ?? []),
});

/** Returns the envelopes of messages. */
export const streamedEnvelopes = (messages: readonly StreamMessageStored[]): StoredEnvelope[] =>
  messages.flatMap(({ seq, headers, data }) =>
    (readStreamBlock({ headers: MsgHdrsImpl.decode(headers), data }, zstdCodec) ?? []).map(
      (envelope) => ({
        hostId: envelope.hostId,
        queueHex: envelope.queueId.toHex(),
        sequence: Number(envelope.sequence),
        text: Buffer.from(envelope.payload).toString(),
        xid: seq,
      }),
    ),
  );
