/**
 * The frames of HTTP/2 (RFC 9113) that a simulated host needs. Node's own client takes four times as much CPU for a request, and several
 * times as much memory for a connection: with 100,000 of them the driver would need more of the machine than core does.
 */

const frameHeadBytes = 9;
const type = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
} as const;
const flag = { endStream: 1, ack: 1, endHeaders: 4 } as const;

const frame = (kind: number, flags: number, stream: number, payload: Uint8Array): Buffer => {
  const bytes = Buffer.allocUnsafe(frameHeadBytes + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = kind;
  bytes[4] = flags;
  bytes.writeUInt32BE(stream, 5);
  bytes.set(payload, frameHeadBytes);
  return bytes;
};

const empty = new Uint8Array();

/** The first bytes of a client: the preface and empty settings. */
export const clientPreface: Uint8Array = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1"),
  frame(type.settings, 0, 0, empty),
]);

const settingsAck = frame(type.settings, flag.ack, 0, empty);

/** Returns a header block for a POST, with literal fields only (RFC 7541, 6.2.2), so that it is the same for each connection. */
export const postHeaders = (path: string, contentType: string): Buffer => {
  const text = (value: string) => [Buffer.of(value.length), Buffer.from(value, "latin1")];
  return Buffer.concat([
    // :method POST, :scheme https; names 4 (:path), 1 (:authority) and 31 (content-type) of the static table.
    Buffer.of(0x83, 0x87, 0x04),
    ...text(path),
    Buffer.of(0x01),
    ...text("localhost"),
    Buffer.of(0x0f, 0x10),
    ...text(contentType),
    Buffer.of(0x00),
    ...text("te"),
    ...text("trailers"),
  ]);
};

/** Returns the field of a body's length (name 28 of the static table), which ends a header block: core reads such a body faster. */
const lengthField = (bytes: number): Buffer => {
  const text = String(bytes);
  return Buffer.concat([Buffer.of(0x0f, 0x0d, text.length), Buffer.from(text, "latin1")]);
};

/** Returns the frames of a request; `isOpen` keeps its stream open for more of the body, whose length is unknown then. */
export const requestFrames = (
  stream: number,
  { headers, body, isOpen }: { headers: Uint8Array; body: Uint8Array; isOpen: boolean },
): Buffer =>
  Buffer.concat([
    frame(
      type.headers,
      flag.endHeaders,
      stream,
      isOpen ? headers : Buffer.concat([headers, lengthField(body.length)]),
    ),
    frame(type.data, isOpen ? 0 : flag.endStream, stream, body),
  ]);

/** Returns a frame of the body of a request that is open. */
export const dataFrame = (stream: number, bytes: Uint8Array): Buffer =>
  frame(type.data, 0, stream, bytes);

/** Receives what a server sends. */
export interface FrameHandlers {
  /** Sends a frame that the protocol demands: an ack, the answer to a ping, more window. */
  reply(bytes: Uint8Array): void;
  /** The server's first frame: the connection is open. */
  onSettings(): void;
  /** `isOk`: the status is 200, which always has the same encoding. */
  onHeaders(stream: number, isOk: boolean): void;
  onData(stream: number, bytes: Buffer): void;
  /** The stream has ended; `isReset`: without a whole response. */
  onEnd(stream: number, isReset: boolean): void;
  /** The server accepts no more streams. */
  onGoAway(): void;
}

/** Bytes of responses after which the connection gets as much window again; it begins with 65,535. */
const windowStep = 16_384;

/** Creates a function that receives the bytes of a connection in any pieces. */
export const createFrameReader = (handlers: FrameHandlers): ((chunk: Buffer) => void) => {
  let rest: Buffer | undefined;
  let read = 0;
  const receive = (kind: number, flags: number, stream: number, payload: Buffer): void => {
    switch (kind) {
      case type.data:
        read += payload.length;
        if (read >= windowStep) {
          const bytes = Buffer.alloc(4);
          bytes.writeUInt32BE(read);
          handlers.reply(frame(type.windowUpdate, 0, 0, bytes));
          read = 0;
        }
        handlers.onData(stream, payload);
        break;
      case type.headers:
        handlers.onHeaders(stream, isStatusOk(payload));
        break;
      case type.resetStream:
        handlers.onEnd(stream, true);
        return;
      case type.settings:
        if ((flags & flag.ack) !== 0) return;
        handlers.reply(settingsAck);
        handlers.onSettings();
        return;
      case type.ping:
        if ((flags & flag.ack) === 0) handlers.reply(frame(type.ping, flag.ack, 0, payload));
        return;
      case type.goAway:
        handlers.onGoAway();
        return;
      default:
        return;
    }
    if ((flags & flag.endStream) !== 0) handlers.onEnd(stream, false);
  };
  return (chunk) => {
    let bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    while (bytes.length >= frameHeadBytes) {
      const end = frameHeadBytes + bytes.readUIntBE(0, 3);
      if (bytes.length < end) break;
      const [kind = 0, flags = 0] = bytes.subarray(3, 5);
      receive(
        kind,
        flags,
        bytes.readUInt32BE(5) & 0x7fff_ffff,
        bytes.subarray(frameHeadBytes, end),
      );
      bytes = bytes.subarray(end);
    }
    // A copy: the chunk may be a view of a large pool, which a hundred thousand connections would keep.
    rest = bytes.length === 0 ? undefined : Buffer.from(bytes);
  };
};

/** `:status: 200` is entry 8 of the static table, after updates of the dynamic table's size. */
const isStatusOk = (block: Buffer): boolean => {
  let index = 0;
  while (((block[index] ?? 0) & 0xe0) === 0x20) index++;
  return block[index] === 0x88;
};
