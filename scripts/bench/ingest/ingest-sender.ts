/**
 * A sender as cheap as possible, so that the bench measures core: raw HTTP/2, and frames that are encoded once. It patches a frame's
 * sequences in place, as varints of five bytes each; that is why they start at 2^28. Each later use of a frame has other ids and times.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { encodeBlock } from "#collector/forward/messages.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { unpooled } from "#kit/buffer-pool.ts";
import { frameMessage } from "#proto/gen/ingest-messages.ts";
import { ForwardRequestSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import {
  createGrpcMessageReader,
  frameGrpcMessages,
  grpcMessagePrefix,
} from "#proto/grpc-framing.ts";
import type { BenchCore } from "../support/bench-core.ts";
import { type CorpusRecord, refresh, toEnvelopes } from "../support/corpus/corpus.ts";

/** Sequences from here on take five bytes. */
const firstSequence = 2 ** 28;
const ackBytesMax = 1 << 20;

/** The frames of a stream. */
export interface StreamOptions {
  hostId: string;
  envelopesOfFrame: number;
  /** Sends each as a block, which it compresses then. */
  asBlocks?: boolean;
  /** What the stream sends, again and again, each time with other ids and times. */
  records: readonly CorpusRecord[];
  framesInFlight: number;
}

/** An open Forward stream. */
export interface SenderStream {
  /** Keeps `framesInFlight` frames in flight until `stop`; calls `onAck` with the latency of each ack. */
  run(onAck: (latencyMs: number) => void): void;
  /** Stops sending; resolves when everything is acknowledged. */
  stop(): Promise<void>;
  /** Returns the number of acknowledged envelopes. */
  acknowledged(): number;
}

/** One TLS connection, for several streams. */
export interface Sender {
  openStream(options: StreamOptions): Promise<SenderStream>;
  close(): void;
}

/** Connects with a client certificate and the flow-control windows of a fast sender. */
export const connectSender = async (options: {
  port: number;
  ca: string;
  cert: string;
  key: string;
}): Promise<Sender> => {
  const { port, ...tls } = options;
  const session = connect(`https://localhost:${port}`, {
    ...tls,
    settings: { initialWindowSize: 1 << 20 },
  });
  await new Promise<void>((resolve, reject) => {
    session.once("connect", () => resolve());
    session.once("error", reject);
  });
  session.on("error", (err) => console.error("sender:", err.message));
  return { openStream: (stream) => openStream(session, stream), close: () => session.destroy() };
};

/**
 * Opens `count` streams to core, each with its share of the records, eight on each connection (the most that core accepts), each connection
 * with an identity of its own. `streams` is how many share the records.
 */
export const openStreams = async (
  { ingestPort: port, ca, files }: Pick<BenchCore, "ingestPort" | "ca" | "files">,
  { streams: shares, records, ...options }: Omit<StreamOptions, "hostId"> & { streams: number },
  count: number,
) => {
  const senders: Sender[] = [];
  const streams: SenderStream[] = [];
  const share = Math.floor(records.length / shares);
  while (streams.length < count) {
    const hostId = `spiffe://fleet.bench/${crypto.randomUUID()}`;
    const sender = await connectSender({ port, ca, ...(await files.client(hostId)) });
    senders.push(sender);
    for (let stream = 0; stream < 8 && streams.length < count; stream++) {
      const own = records.slice(streams.length * share, (streams.length + 1) * share);
      streams.push(await sender.openStream({ ...options, records: own, hostId }));
    }
  }
  return { senders, streams };
};

const openStream = async (
  session: ClientHttp2Session,
  options: StreamOptions,
): Promise<SenderStream> => {
  const { hostId } = options;
  const queueId = crypto.getRandomValues(new Uint8Array(16));
  const stream = session.request({
    ":method": "POST",
    ":path": "/svc.ingest.v1.IngestService/Forward",
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  const failed = new Promise<never>((_, reject) => {
    stream.once("error", reject);
    stream.once("trailers", (trailers) =>
      reject(new Error(`the stream ended: ${trailers["grpc-message"]}`)),
    );
  });
  failed.catch(() => undefined);
  const open = create(ForwardRequestSchema, {
    message: { case: "open", value: { hostId, queueId, sessionId: queueId } },
  });
  // The frame moves the cursor to where sequences take five bytes.
  const probe: CorpusRecord = {
    kind: "log_line",
    source: "files",
    attributes: {},
    at: 0,
    payload: Buffer.of(0x2e),
    slots: [],
  };
  const messages = [
    toBinary(ForwardRequestSchema, open),
    frameOf(hostId, queueId, 0, firstSequence - 1, [probe]),
  ];
  stream.write(frameGrpcMessages(messages));
  const { opened, controls } = createFlow(stream, options, queueId, failed);
  await Promise.race([opened, failed]);
  return controls;
};

/** Creates what sends the frames of a stream and receives their acks; `opened` resolves with that of the first. */
const createFlow = (
  stream: ClientHttp2Stream,
  options: StreamOptions,
  queueId: Uint8Array,
  failed: Promise<never>,
): { opened: Promise<void>; controls: SenderStream } => {
  const { envelopesOfFrame, framesInFlight } = options;
  const free: ArrayBuffer[] = [];
  const encodeFrame = createFrameEncoder(options, queueId, free);
  const sentFrames: { at: number; memory: ArrayBuffer }[] = [];
  let next = firstSequence;
  let received = 0;
  let running = false;
  let onAck: (latencyMs: number) => void = () => undefined;
  const opened = Promise.withResolvers<void>();
  let drained: (() => void) | undefined;

  const send = () => {
    const frame = encodeFrame(next);
    sentFrames.push({ at: performance.now(), memory: frame.buffer });
    if (options.asBlocks) writeBlock(stream, options, queueId, next, frame);
    else stream.write(frame);
    next += envelopesOfFrame;
  };
  const receive = () => {
    // Opened, and the ack of the first frame.
    if (received++ < 2) return received === 2 && opened.resolve();
    const acked = sentFrames.shift();
    if (acked === undefined) throw new Error("an ack without a frame");
    onAck(performance.now() - acked.at);
    free.push(acked.memory);
    if (running) send();
    else if (sentFrames.length === 0) drained?.();
  };
  const tooLarge = () => new Error("an ack is too large");
  const reader = createGrpcMessageReader(ackBytesMax, unpooled, tooLarge);
  stream.on("data", (chunk: Buffer<ArrayBuffer>) => {
    for (let count = reader.push(chunk).length; count > 0; count--) receive();
  });
  const controls: SenderStream = {
    run(callback) {
      onAck = callback;
      running = true;
      for (let index = 0; index < framesInFlight; index++) send();
    },
    async stop() {
      running = false;
      if (sentFrames.length > 0)
        await Promise.race([new Promise<void>((resolve) => (drained = resolve)), failed]);
    },
    acknowledged: () => Math.max(0, received - 2) * envelopesOfFrame,
  };
  return { opened: opened.promise, controls };
};

const frameOf = (
  hostId: string,
  queueId: Uint8Array,
  previous: number,
  first: number,
  records: readonly CorpusRecord[],
): Uint8Array => {
  const value = {
    hostId,
    queueId,
    previousSequence: BigInt(previous),
    envelopes: toEnvelopes(records, first),
  };
  return toBinary(
    ForwardRequestSchema,
    create(ForwardRequestSchema, { message: { case: "frame", value } }),
  );
};

/** Any sequence whose varints occur nowhere else in a frame before its payloads. */
const sample = firstSequence + 0x1f_ffff;

/** A frame, and where its sequences, the one before it first, and its payloads are. */
const templateOf = (
  { hostId }: StreamOptions,
  queueId: Uint8Array,
  records: readonly CorpusRecord[],
) => {
  const bytes = Buffer.from(
    frameGrpcMessages([frameOf(hostId, queueId, sample - 1, sample, records)]),
  );
  let from = 0;
  const find = (wanted: Uint8Array): number => {
    const at = bytes.indexOf(wanted, from);
    if (at < 0) throw new Error("a sequence or a payload was not found in the frame");
    from = at + wanted.length;
    return at;
  };
  const sequences = [find(varint5(sample - 1))];
  const payloads = records.map(({ payload, slots }, index) => {
    sequences.push(find(varint5(sample + index)));
    return { start: find(payload), slots };
  });
  return { bytes, sequences, payloads };
};

/**
 * Returns a function that returns the next frame, which starts at a sequence, in `free` memory where there is some: new memory for each would
 * cost this process more than anything else.
 */
const createFrameEncoder = (
  options: StreamOptions,
  queueId: Uint8Array,
  free: ArrayBuffer[],
): ((first: number) => Buffer<ArrayBuffer>) => {
  const { envelopesOfFrame, records } = options;
  const templates = Array.from(
    { length: Math.floor(records.length / envelopesOfFrame) },
    (_, index) =>
      templateOf(
        options,
        queueId,
        records.slice(index * envelopesOfFrame, (index + 1) * envelopesOfFrame),
      ),
  );
  const bytesMax = Math.max(0, ...templates.map((template) => template.bytes.length));
  let sent = 0;
  return (first) => {
    const template = templates[sent % templates.length];
    if (template === undefined) throw new Error("the stream has too few records for a frame");
    const bytes = Buffer.from(free.pop() ?? new ArrayBuffer(bytesMax), 0, template.bytes.length);
    bytes.set(template.bytes);
    const use = Math.floor(sent++ / templates.length);
    for (const { start, slots } of template.payloads) refresh(bytes, start, slots, use);
    for (const [index, at] of template.sequences.entries())
      writeVarint5(bytes, at, first - 1 + index);
    return bytes;
  };
};

/** Bytes of gRPC before a message, and the tag of a frame within it. */
const prefixBytes = 5;

/** Sends a frame's envelopes as a block, compressed. */
const writeBlock = (
  stream: ClientHttp2Stream,
  { hostId, envelopesOfFrame: count }: StreamOptions,
  queueId: Uint8Array,
  first: number,
  frame: Uint8Array,
): void => {
  const reader = new BinaryReader(frame);
  reader.pos = prefixBytes;
  // The request and its frame begin with a tag and a length; the claims come before the envelopes.
  reader.uint32();
  reader.uint32();
  while (frame[reader.pos] !== envelopeTag) {
    const [, type] = reader.tag();
    reader.skip(type);
  }
  const raw = frame.subarray(reader.pos);
  const data = zstdCodec.compress(raw);
  const head = { hostId, queueId, previousSequence: first - 1, lastSequence: first - 1 + count };
  const parts = encodeBlock({ ...head, envelopes: count, rawBytes: raw.length }, [data]);
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  stream.write(Buffer.concat([grpcMessagePrefix(length, false), ...parts.slice(0, -1)]));
  stream.write(data);
};

const { envelopes: envelopeTag } = frameMessage.tags;

const writeVarint5 = (bytes: Uint8Array, at: number, value: number): void => {
  bytes[at] = (value & 0x7f) | 0x80;
  bytes[at + 1] = ((value >>> 7) & 0x7f) | 0x80;
  bytes[at + 2] = ((value >>> 14) & 0x7f) | 0x80;
  bytes[at + 3] = ((value >>> 21) & 0x7f) | 0x80;
  bytes[at + 4] = (value >>> 28) & 0x0f;
};

const varint5 = (value: number): Buffer => {
  const bytes = Buffer.alloc(5);
  writeVarint5(bytes, 0, value);
  return bytes;
};
