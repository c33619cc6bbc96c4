import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { Problem } from "../problems.ts";
import { toConnectError } from "./connect-error.ts";

/** What a Frame's wrapper message (ForwardRequest, SubmitRequest) adds to it at most: a tag and a length. */
export const wrapperBytesMax = 16;

/**
 * Refuses a message over `bytesMax` with `frame_too_large` as soon as its length is known, before any of it is buffered. Connect's
 * own check, behind this one, refuses it without a reason, where no handler of ours could add one.
 */
export const limitFrameBytes = (handler: UniversalHandler, bytesMax: number): UniversalHandler => {
  const limited = (request: UniversalServerRequest) => {
    const { body } = request;
    if (typeof body !== "object" || body === null || !(Symbol.asyncIterator in body)) return handler(request);
    const enveloped = /^application\/(grpc|connect\+)/i.test(request.header.get("content-type") ?? "");
    const bytes = body as AsyncIterable<Uint8Array>;
    return handler({ ...request, body: enveloped ? limitEnvelopes(bytes, bytesMax) : limitBody(bytes, bytesMax) });
  };
  return Object.assign(limited, handler);
};

const tooLarge = () => toConnectError(new Problem("frame_too_large"));

async function* limitBody(body: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge();
    yield chunk;
  }
}

/** gRPC, gRPC-Web and Connect streams put five bytes before each message: flags, and its length as 32 bits, big-endian. */
async function* limitEnvelopes(body: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Uint8Array> {
  let prefixBytes = 0;
  let length = 0;
  for await (const chunk of body) {
    let at = 0;
    while (at < chunk.length) {
      if (prefixBytes < 5) {
        if (prefixBytes > 0) length = length * 256 + (chunk[at] ?? 0);
        prefixBytes++;
        at++;
        if (prefixBytes === 5 && length > bytesMax) throw tooLarge();
      } else {
        const step = Math.min(length, chunk.length - at);
        at += step;
        length -= step;
      }
      if (prefixBytes === 5 && length === 0) prefixBytes = 0;
    }
    yield chunk;
  }
}
