/**
 * A sender as cheap as possible, so that the bench measures core: raw HTTP/2, and a frame that is encoded once. It patches a frame's
 * sequences in place, as varints of five bytes each; that is why they start at 2^28.
 */
import { type ClientHttp2Session, connect } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { unpooled } from "../../../kit/buffer-pool.ts";
import { ForwardRequestSchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { createGrpcMessageReader, frameGrpcMessages } from "../../../proto/grpc-framing.ts";

/** Sequences from here on take five bytes. */
const firstSequence = 2 ** 28;
const ackBytesMax = 1 << 20;

/** The frames of a stream. */
export interface StreamOptions {
  hostId: string;
  envelopesOfFrame: number;
  payloadBytes: number;
  framesInFlight: number;
}

/** An open Forward stream. */
export interface SenderStream {
  /** Keeps `framesInFlight` frames in flight until `stop`; calls `onAck` with the latency of each ack. */
  run(onAck: (latencyMs: number) => void): void;
  /** Sends `framesPerSecond` whatever is acknowledged, until `stop`; calls `onAck` with the latency of each ack. */
  runAt(framesPerSecond: number, onAck: (latencyMs: number) => void): void;
  /** Stops sending; resolves when everything is acknowledged. */
  stop(): Promise<void>;
  /** Returns the number of acknowledged envelopes. */
  acknowledged(): number;
  /** Rejects when core ends the stream. */
  failed: Promise<never>;
  close(): void;
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
  const session = connect(`https://localhost:${port}`, { ...tls, settings: { initialWindowSize: 1 << 20 } });
  await new Promise<void>((resolve, reject) => {
    session.once("connect", () => resolve());
    session.once("error", reject);
  });
  session.on("error", (err) => console.error("sender:", err.message));
  return { openStream: (stream) => openStream(session, stream), close: () => session.destroy() };
};

const openStream = async (session: ClientHttp2Session, options: StreamOptions): Promise<SenderStream> => {
  const { hostId, envelopesOfFrame, framesInFlight } = options;
  const queueId = crypto.getRandomValues(new Uint8Array(16));
  const stream = session.request({
    ":method": "POST",
    ":path": "/svc.ingest.v1.IngestService/Forward",
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  const failed = new Promise<never>((_, reject) => {
    stream.once("error", reject);
    stream.once("trailers", (trailers) => reject(new Error(`the stream ended: ${trailers["grpc-message"]}`)));
  });
  failed.catch(() => undefined);
  const open = create(ForwardRequestSchema, {
    message: { case: "open", value: { hostId, queueId, sessionId: queueId } },
  });
  // The frame moves the cursor to where sequences take five bytes.
  const messages = [toBinary(ForwardRequestSchema, open), frameOf(options, queueId, 0, firstSequence - 1, 1)];
  stream.write(frameGrpcMessages(messages));

  const encodeFrame = createFrameEncoder(options, queueId);
  const sentAt: number[] = [];
  let next = firstSequence;
  let received = 0;
  let running = false;
  let paced: NodeJS.Timeout | undefined;
  let onAck: (latencyMs: number) => void = () => undefined;
  const opened = Promise.withResolvers<void>();
  let drained: (() => void) | undefined;

  const send = () => {
    sentAt.push(performance.now());
    stream.write(encodeFrame(next));
    next += envelopesOfFrame;
  };
  const receive = () => {
    // Opened, and the ack of the first frame.
    if (received++ < 2) return received === 2 && opened.resolve();
    onAck(performance.now() - (sentAt.shift() ?? 0));
    if (running) send();
    else if (sentAt.length === 0) drained?.();
  };
  const reader = createGrpcMessageReader(ackBytesMax, unpooled, () => new Error("an ack is too large"));
  stream.on("data", (chunk: Buffer<ArrayBuffer>) => {
    for (let count = reader.push(chunk).length; count > 0; count--) receive();
  });
  await Promise.race([opened.promise, failed]);

  return {
    run(callback) {
      onAck = callback;
      running = true;
      for (let index = 0; index < framesInFlight; index++) send();
    },
    runAt(framesPerSecond, callback) {
      onAck = callback;
      const startedAt = performance.now();
      let sent = 0;
      // Several in a tick when this process was busy: what is sent does not depend on how fast it is acknowledged.
      paced = setInterval(() => {
        const due = Math.floor(((performance.now() - startedAt) / 1000) * framesPerSecond);
        for (; sent < due; sent++) send();
      }, 5);
    },
    async stop() {
      running = false;
      clearInterval(paced);
      if (sentAt.length > 0) await Promise.race([new Promise<void>((resolve) => (drained = resolve)), failed]);
    },
    acknowledged: () => Math.max(0, received - 2) * envelopesOfFrame,
    failed,
    close: () => stream.close(),
  };
};

const frameOf = (
  { hostId, payloadBytes }: StreamOptions,
  queueId: Uint8Array,
  previous: number,
  first: number,
  count: number,
  payload: Uint8Array = new Uint8Array(payloadBytes),
): Uint8Array => {
  const envelopes = Array.from({ length: count }, (_, index) => ({
    sequence: BigInt(first + index),
    kind: "otel_log",
    observedAt: { seconds: 1_795_000_000n, nanos: 123_000_000 },
    source: "otlp",
    payload,
  }));
  const value = { hostId, queueId, previousSequence: BigInt(previous), envelopes };
  return toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message: { case: "frame", value } }));
};

/** Returns a function that returns the frame starting at a sequence. */
const createFrameEncoder = (options: StreamOptions, queueId: Uint8Array): ((first: number) => Buffer) => {
  const { envelopesOfFrame, payloadBytes } = options;
  const payload = crypto.getRandomValues(new Uint8Array(payloadBytes));
  // Any sequence whose varints occur nowhere else in the frame.
  const sample = firstSequence + 0x1f_ffff;
  const template = frameGrpcMessages([frameOf(options, queueId, sample - 1, sample, envelopesOfFrame, payload)]);
  const offsets: number[] = [];
  for (let index = 0; index <= envelopesOfFrame; index++) {
    const at = Buffer.from(template.buffer).indexOf(varint5(sample - 1 + index), (offsets.at(-1) ?? -5) + 5);
    if (at < 0) throw new Error("a sequence was not found in the frame");
    offsets.push(at);
  }
  return (first) => {
    const bytes = Buffer.from(template);
    for (const [index, at] of offsets.entries()) writeVarint5(bytes, at, first - 1 + index);
    return bytes;
  };
};

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
