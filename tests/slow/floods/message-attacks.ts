import { gzipSync } from "node:zlib";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import {
  BlockEncoding,
  EnvelopesSchema,
  ForwardRequestSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { frameGrpcMessages } from "#proto/grpc-framing.ts";
import { newQueue } from "#tests/support/frames.ts";

/** A request whose message is small on the wire and large in core's memory. */
export interface MessageAttack {
  path: string;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array;
}

const [forward, submit] = ["Forward", "Submit"].map(
  (method) => `/svc.ingest.v1.IngestService/${method}`,
) as [string, string];
const messageBytes = 4_194_000;

const gzippedGrpc = (message: Uint8Array): Omit<MessageAttack, "path"> => {
  const body = frameGrpcMessages([gzipSync(message)]);
  body[0] = 1;
  return { headers: { "content-type": "application/grpc", "grpc-encoding": "gzip" }, body };
};

/** A varint of four bytes. */
const lengthOf = (bytes: number): number[] =>
  [0, 7, 14, 21].map((bits) => ((bytes >>> bits) & 0x7f) | (bits < 21 ? 0x80 : 0));

/** A field of so many bytes, or the message itself with `number` 0, that has the same few bytes again and again. */
const repeated = (number: number, unit: readonly number[]): Uint8Array => {
  const body = Buffer.alloc(messageBytes - (messageBytes % unit.length), Buffer.from(unit));
  return number === 0
    ? body
    : Buffer.concat([Buffer.from([(number << 3) | 2, ...lengthOf(body.length)]), body]);
};

const json = (
  unit: string,
  [before, after]: readonly [string, string],
): Omit<MessageAttack, "path"> => {
  const units = unit.repeat(Math.floor(messageBytes / unit.length) - 20).slice(0, -1);
  return {
    headers: { "content-type": "application/json", "content-encoding": "gzip" },
    body: gzipSync(`${before}${units}${after}`),
  };
};

const encode = (message: NonNullable<MessageInitShape<typeof ForwardRequestSchema>["message"]>) =>
  toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message }));

/** A stream of blocks, each of which becomes `raw` bytes. */
const blocks = (
  hostId: string,
  count: number,
  content: (first: number) => {
    envelopes?: MessageInitShape<typeof EnvelopesSchema>["envelopes"];
    rawBytes?: number;
    data?: Uint8Array;
  },
): Omit<MessageAttack, "path"> => {
  const queueId = Uint8Array.from(newQueue());
  let previous = 0;
  const messages = Array.from({ length: count }, () => {
    const { envelopes = [], rawBytes, data } = content(previous + 1);
    const raw = toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes }));
    const previousSequence = BigInt(previous);
    previous += envelopes.length;
    return encode({
      case: "block",
      value: {
        hostId,
        queueId,
        previousSequence,
        lastSequence: BigInt(previous),
        envelopes: envelopes.length,
        rawBytes: rawBytes ?? raw.length,
        encoding: BlockEncoding.ZSTD,
        data: data ?? zstdCodec.compress(raw),
      },
    });
  });
  const open = encode({ case: "open", value: { hostId, queueId } });
  return {
    headers: { "content-type": "application/grpc" },
    body: frameGrpcMessages([open, ...messages]),
  };
};

/** The attacks by messages of an enrolled host, by name. */
export const messageAttacks: Readonly<Record<string, (hostId: string) => MessageAttack>> = {
  "an Open of left queues": () => ({ path: forward, ...gzippedGrpc(repeated(1, [0x42, 0])) }),
  "an Open of session ids": () => ({ path: forward, ...gzippedGrpc(repeated(1, [0x22, 0])) }),
  "a Submit of unknown fields": () => ({ path: submit, ...gzippedGrpc(repeated(0, [0x78, 0])) }),
  "a message of opens and frames in turn": () => ({
    path: forward,
    ...gzippedGrpc(repeated(0, [0x0a, 0, 0x12, 0])),
  }),
  "an Open of session ids in JSON": () => ({
    path: submit,
    ...json('"",', ['{"open":{"previousSessionIds":[', "]}}"]),
  }),
  "an Open of left queues in JSON": () => ({
    path: submit,
    ...json("{},", ['{"open":{"leftQueues":[', "]}}"]),
  }),
  "blocks of zeros": (hostId) => ({
    path: forward,
    ...blocks(hostId, 90, (first) => ({
      envelopes: [0, 1, 2, 3].map((at) => ({
        sequence: BigInt(first + at),
        kind: "log_line",
        payload: new Uint8Array(1_048_000),
      })),
    })),
  }),
  "blocks that lie": (hostId) => ({
    path: forward,
    ...blocks(hostId, 1, () => ({
      rawBytes: messageBytes - 1,
      data: zstdCodec.compress(new Uint8Array(messageBytes)),
    })),
  }),
  "blocks of 20,000 envelopes": (hostId) => ({
    path: forward,
    ...blocks(hostId, 20, (first) => ({
      envelopes: Array.from({ length: 20_000 }, (_, at) => ({
        sequence: BigInt(first + at),
        kind: "a",
      })),
    })),
  }),
};
