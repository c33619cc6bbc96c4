/**
 * The cheapest sender there is, so that the bench measures core: raw HTTP/2 and a frame that is encoded once. A frame's sequences are
 * patched in place, as varints of five bytes each, which is why they start at 2^28.
 */
import { type ClientHttp2Session, connect } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { ForwardRequestSchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";

/** Sequences from here on take five bytes. */
const firstSequence = 2 ** 28;

/** What a stream sends. */
export interface StreamOptions {
  hostId: string;
  envelopesOfFrame: number;
  payloadBytes: number;
  framesInFlight: number;
}

/** A Forward stream that is open. */
export interface SenderStream {
  /** Keeps `framesInFlight` frames on their way until `stop`; each ack is told with its milliseconds. */
  run(onAck: (latencyMs: number) => void): void;
  /** Sends no more, and resolves when everything is acknowledged. */
  stop(): Promise<void>;
  /** Envelopes acknowledged. */
  acknowledged(): number;
  close(): void;
}

/** One TLS connection; `openStream` may be called for several streams. */
export interface Sender {
  openStream(options: StreamOptions): Promise<SenderStream>;
  close(): void;
}

/** Connects with a client certificate, with the windows of a fast sender. */
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
  const open = create(ForwardRequestSchema, { message: { case: "open", value: { hostId, queueId } } });
  stream.write(enveloped(toBinary(ForwardRequestSchema, open)));

  // Brings the cursor to where sequences take five bytes.
  stream.write(enveloped(frameOf(options, queueId, 0, firstSequence - 1, 1)));

  const template = encodeFrame(options, queueId);
  const sentAt: number[] = [];
  let next = firstSequence;
  let messages = 0;
  let running = false;
  let onAck: (latencyMs: number) => void = () => undefined;
  const opened = Promise.withResolvers<void>();
  let drained: (() => void) | undefined;

  const send = () => {
    sentAt.push(performance.now());
    stream.write(template(next));
    next += envelopesOfFrame;
  };
  const received = () => {
    // Opened, and the ack of the first frame.
    if (messages++ < 2) return messages === 2 && opened.resolve();
    onAck(performance.now() - (sentAt.shift() ?? 0));
    if (running) send();
    else if (sentAt.length === 0) drained?.();
  };
  stream.on("data", eachEnvelope(received));
  await Promise.race([opened.promise, failed]);

  return {
    run(callback) {
      onAck = callback;
      running = true;
      for (let index = 0; index < framesInFlight; index++) send();
    },
    async stop() {
      running = false;
      if (sentAt.length > 0) await Promise.race([new Promise<void>((resolve) => (drained = resolve)), failed]);
    },
    acknowledged: () => Math.max(0, messages - 2) * envelopesOfFrame,
    close: () => stream.close(),
  };
};

const enveloped = (message: Uint8Array): Buffer => {
  const bytes = Buffer.alloc(5 + message.length);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, 5);
  return bytes;
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

/** Gives a function that makes the frame starting at a sequence. */
const encodeFrame = (options: StreamOptions, queueId: Uint8Array): ((first: number) => Buffer) => {
  const { envelopesOfFrame } = options;
  const payload = crypto.getRandomValues(new Uint8Array(options.payloadBytes));
  const encode = (first: number): Buffer =>
    enveloped(frameOf(options, queueId, first - 1, first, envelopesOfFrame, payload));
  // Where two encodings of different sequences differ are the varints: the third byte of each is alike in neither.
  const [one, other] = [encode(firstSequence + 0x1f_ffff), encode(firstSequence + 0x1f_ffff + 0x2000_0000)];
  const offsets: { at: number; delta: number }[] = [];
  const find = (value: number, from: number): number => one.indexOf(varint5(value), from);
  let from = 0;
  for (let index = -1; index < envelopesOfFrame; index++) {
    const at = find(firstSequence + 0x1f_ffff + index, from);
    if (at < 0 || Buffer.compare(other.subarray(at, at + 5), varint5(firstSequence + 0x2020_0000 - 1 + index)) !== 0)
      throw new Error("a sequence was not found in the frame");
    offsets.push({ at, delta: index });
    from = at + 5;
  }
  return (first) => {
    const bytes = Buffer.from(one);
    for (const { at, delta } of offsets) writeVarint5(bytes, at, first + delta);
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

/** Calls back for each gRPC message of a response; acks are not parsed. */
const eachEnvelope = (callback: () => void): ((chunk: Buffer) => void) => {
  let prefix = 0;
  let length = 0;
  return (chunk) => {
    let at = 0;
    while (at < chunk.length || (prefix === 5 && length === 0)) {
      if (prefix < 5) {
        length = prefix === 0 ? 0 : length * 256 + (chunk[at] ?? 0);
        prefix++;
        at++;
      } else {
        const step = Math.min(length, chunk.length - at);
        at += step;
        length -= step;
      }
      if (prefix === 5 && length === 0) {
        prefix = 0;
        callback();
      }
    }
  };
};
