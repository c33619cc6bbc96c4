import { promisify } from "node:util";
import { gunzip } from "node:zlib";

/** Why nothing was decompressed: the bytes are no gzip, become too many, or too many others wait for their turn. */
export class GunzipError extends Error {
  readonly reason: "malformed" | "too_large" | "busy";

  constructor(reason: GunzipError["reason"], options?: ErrorOptions) {
    super(reason, options);
    this.name = "GunzipError";
    this.reason = reason;
  }
}

/** Decompresses gzip. Throws `GunzipError`. */
export type Gunzip = (compressed: Uint8Array) => Promise<Buffer>;

/** Bounds of a `Gunzip`. */
export interface GunzipLimits {
  /** Of what comes out, each time. */
  bytesMax: number;
  /** Of what waits to go in, together. */
  waitingBytesMax: number;
}

/** zlib does a little of everything it was given in turn: all of it at once would fill the memory with almost whole outputs. */
const atOnceMax = 2;

const inflate = promisify(gunzip);

/** Makes one that takes turns: no more than two outputs are under way, however many small inputs would become large. */
export const createGunzip = ({ bytesMax, waitingBytesMax }: GunzipLimits): Gunzip => {
  const waiting: (() => void)[] = [];
  let waitingBytes = 0;
  let running = 0;

  const takeTurn = async (bytes: number): Promise<void> => {
    if (running < atOnceMax) {
      running += 1;
      return;
    }
    if (waitingBytes + bytes > waitingBytesMax) throw new GunzipError("busy");
    waitingBytes += bytes;
    await new Promise<void>((resolve) => waiting.push(resolve));
    waitingBytes -= bytes;
  };
  const passTurn = (): void => {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  return async (compressed) => {
    await takeTurn(compressed.length);
    try {
      return await inflate(compressed, { maxOutputLength: bytesMax });
    } catch (cause) {
      const isTooLarge = cause instanceof Error && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE";
      throw new GunzipError(isTooLarge ? "too_large" : "malformed", { cause });
    } finally {
      passTurn();
    }
  };
};
