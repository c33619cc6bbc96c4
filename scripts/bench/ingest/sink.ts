/** The far end of the collector bench: an ingest service that acknowledges every frame and block and keeps nothing. */
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
import { type Received, serveSink } from "../support/serve-sink.ts";

/** As core does, so that a collector compresses as in life. */
const blockEncodings = [BlockEncoding.NONE, BlockEncoding.ZSTD];
const unzstd = promisify(zstdDecompress);
const envelopesOf = async ({ encoding, data }: Block) =>
  fromBinary(EnvelopesSchema, encoding === BlockEncoding.ZSTD ? await unzstd(data) : data)
    .envelopes;

const count = (received: Received, envelopes: readonly Envelope[]): void => {
  received.envelopes += envelopes.length;
  for (const { payload } of envelopes) received.bytes += payload.length;
};

const routesTo =
  (received: Received): Parameters<typeof connectNodeAdapter>[0]["routes"] =>
  (router) =>
    router.service(IngestService, {
      async *forward(requests) {
        for await (const { message } of requests) {
          if (message.case === "open")
            yield { message: { case: "opened" as const, value: { cursor: 0n, blockEncodings } } };
          if (message.case !== "frame" && message.case !== "block") continue;
          const envelopes =
            message.case === "frame" ? message.value.envelopes : await envelopesOf(message.value);
          count(received, envelopes);
          const ackedThrough = envelopes.at(-1)?.sequence ?? 0n;
          yield {
            message: {
              case: "ack" as const,
              value: { queueId: message.value.queueId, ackedThrough, rejected: [] },
            },
          };
        }
      },
    });

await serveSink((server, received) =>
  server.on("request", connectNodeAdapter({ routes: routesTo(received) })),
);
