import type { Core } from "../core.ts";
import { anyone } from "../http/resource.ts";
import { type Route, route } from "../http/route.ts";

/**
 * `GET /v1/openapi.json`: this API as an OpenAPI 3.1 document, generated from the same list of routes that serves it. The document, a
 * third of core's code, is loaded at the first request, and its ETag made once.
 */
export const openApiRoute = ({ cryptography }: Pick<Core, "cryptography">): Route => {
  let made: Promise<{ content: Uint8Array<ArrayBuffer>; etag: string }> | undefined;
  const make = async () => {
    const { default: document } = await import("#proto/openapi.json", {
      with: { type: "json" },
    });
    const content = new TextEncoder().encode(JSON.stringify(document));
    return { content, etag: `"${await cryptography.sha256Hex(content)}"` };
  };
  return route({
    method: "GET",
    path: "/v1/openapi.json",
    operationId: "openapi",
    summary: "This document",
    guard: anyone,
    replies: {
      200: { description: "OpenAPI 3.1, with an `ETag`" },
      304: { description: "`If-None-Match` names the current `ETag`" },
    },
    handle: async () => {
      made ??= make();
      const { content, etag } = await made;
      return {
        status: 200,
        stream: { type: "application/json", content: inParts(content) },
        headers: { "Cache-Control": "public, max-age=300", ETag: etag },
      };
    },
  });
};

const partBytes = 16 * 1024;

/** Streams bytes that all responses share: a client that reads nothing costs one part, not a copy of the document. */
const inParts = (bytes: Uint8Array): ReadableStream<Uint8Array> => {
  let at = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (at >= bytes.length) return controller.close();
    controller.enqueue(bytes.subarray(at, at + partBytes));
    at += partBytes;
  };
  return new ReadableStream({ pull }, { highWaterMark: 0 });
};
