import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

const grpcPrefixBytes = 5;

/** Handles requests over gRPC, and those with any other body, as a server that accepts each and keeps nothing. */
export const acknowledgeRequests =
  (receive: (body: Buffer) => void) =>
  async (request: Http2ServerRequest, response: Http2ServerResponse): Promise<void> => {
    // The sender lacks the answer to a request that a closed connection interrupts, and repeats it.
    const body = await buffer(request).catch(() => undefined);
    if (body === undefined) return;
    const type = request.headers["content-type"] ?? "application/json";
    response.setHeader("content-type", type);
    if (!type.startsWith("application/grpc")) {
      receive(body);
      response.end('{"errors":false,"items":[]}');
      return;
    }
    const message = body.subarray(grpcPrefixBytes);
    receive(body[0] === 1 ? gunzipSync(message) : message);
    response.addTrailers({ "grpc-status": "0" });
    response.end(Buffer.alloc(grpcPrefixBytes));
  };
