import { promisify } from "node:util";
import { zstdDecompress } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  type Block,
  BlockEncoding,
  type Envelope,
  EnvelopesSchema,
  IngestService,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";

/** As core does, so that a collector compresses as in life. */
const blockEncodings = [BlockEncoding.NONE, BlockEncoding.ZSTD];
const unzstd = promisify(zstdDecompress);
const envelopesOf = async ({ encoding, data }: Block) =>
  fromBinary(EnvelopesSchema, encoding === BlockEncoding.ZSTD ? await unzstd(data) : data)
    .envelopes;

/** Handles requests as an ingest service that acknowledges every frame and block and keeps nothing. As core does, it accepts an envelope once. */
export const acknowledgeEnvelopes = (receive: (envelopes: readonly Envelope[]) => void) => {
  const cursors = new Map<string, bigint>();
  const cursorOf = (queueId: Uint8Array) => cursors.get(queueId.toHex()) ?? 0n;

  /** A cursor only moves forward: a collector that was killed resends what its last call may still be delivering. */
  const accept = (queueId: Uint8Array, envelopes: readonly Envelope[]) => {
    const cursor = cursorOf(queueId);
    receive(envelopes.filter(({ sequence }) => sequence > cursor));
    const last = envelopes.at(-1)?.sequence ?? cursor;
    const ackedThrough = last < cursor ? cursor : last;
    cursors.set(queueId.toHex(), ackedThrough);
    return { queueId, ackedThrough, rejected: [] };
  };

  return connectNodeAdapter({
    routes: (router) =>
      router.service(IngestService, {
        async *forward(requests) {
          for await (const { message } of requests) {
            if (message.case === "open") {
              const cursor = cursorOf(message.value.queueId);
              yield { message: { case: "opened" as const, value: { cursor, blockEncodings } } };
            }
            if (message.case !== "frame" && message.case !== "block") continue;
            const envelopes =
              message.case === "frame" ? message.value.envelopes : await envelopesOf(message.value);
            yield {
              message: { case: "ack" as const, value: accept(message.value.queueId, envelopes) },
            };
          }
        },
      }),
  });
};
