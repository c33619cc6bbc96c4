/**
 * The far end of the collector bench, as a process of its own: an ingest service that acknowledges every frame and block and keeps nothing.
 * Prints one line of JSON with its endpoint and a client's credentials, then for each line on stdin how many envelopes and bytes it
 * has received. From the line `refuse` to the line `accept` it closes new connections at once.
 */
import { createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { zstdDecompress } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  type Block,
  BlockEncoding,
  EnvelopesSchema,
  IngestService,
} from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestCa } from "../../lab/ca/test-pki.ts";
import { issueBenchCredentials } from "../support/collector-files.ts";

const hostId = "https://fleet.test/d/1";
const ca = await createTestCa();

/** As core does, so that a collector compresses as in life. */
const blockEncodings = [BlockEncoding.NONE, BlockEncoding.ZSTD];
const unzstd = promisify(zstdDecompress);
const envelopesOf = async ({ encoding, data }: Block) =>
  fromBinary(EnvelopesSchema, encoding === BlockEncoding.ZSTD ? await unzstd(data) : data).envelopes;

const received = { envelopes: 0, bytes: 0 };
const routes: Parameters<typeof connectNodeAdapter>[0]["routes"] = (router) =>
  router.service(IngestService, {
    async *forward(requests) {
      for await (const { message } of requests) {
        if (message.case === "open")
          yield { message: { case: "opened" as const, value: { cursor: 0n, blockEncodings } } };
        if (message.case !== "frame" && message.case !== "block") continue;
        const envelopes = message.case === "frame" ? message.value.envelopes : await envelopesOf(message.value);
        received.envelopes += envelopes.length;
        for (const { payload } of envelopes) received.bytes += payload.length;
        const ackedThrough = envelopes.at(-1)?.sequence ?? 0n;
        yield {
          message: { case: "ack" as const, value: { queueId: message.value.queueId, ackedThrough, rejected: [] } },
        };
      }
    },
  });
const server = createSecureServer(
  {
    ...(await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" })),
    ca: ca.pem,
    requestCert: true,
    rejectUnauthorized: true,
    settings: { initialWindowSize: 4 * 1024 * 1024 },
  },
  connectNodeAdapter({ routes }),
);
const far = { refusing: false };
server.on("session", (session) => (far.refusing ? session.destroy() : session.setLocalWindowSize(16 * 1024 * 1024)));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const tls = { ...(await issueBenchCredentials(ca, { type: "url", value: hostId })), ca: ca.pem };
console.log(JSON.stringify({ endpoint: `127.0.0.1:${(server.address() as AddressInfo).port}`, tls, hostId }));
createInterface(process.stdin).on("line", (command) => {
  if (command === "refuse") far.refusing = true;
  if (command === "accept") far.refusing = false;
  console.log(JSON.stringify(received));
});
process.stdin.on("end", () => process.exit());
