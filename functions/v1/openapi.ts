import type { Core } from "../core.ts";
import { anyone } from "../http/resource.ts";
import { route } from "../http/route.ts";
import type { Route } from "../http/route-definition.ts";

/**
 * `GET /v1/openapi.json`: this API as an OpenAPI 3.1 document, generated from the same list of routes that serves it. Loads the document at
 * the first request, because it is a third of core's code, and computes its ETag once.
 */
export const openApiRoute = ({ cryptography }: Pick<Core, "cryptography">): Route => {
  let loaded: { content: Uint8Array<ArrayBuffer>; etag: string } | undefined;
  const load = async () => {
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
      loaded ??= await load();
      const { content, etag } = loaded;
      return {
        status: 200,
        stream: { type: "application/json", content: streamInParts(content) },
        headers: { "Cache-Control": "public, max-age=300", ETag: etag },
      };
    },
  });
};

const partBytes = 16 * 1024;

/** Streams bytes that all responses share. A client that does not read costs one part, not a copy of the document. */
const streamInParts = (bytes: Uint8Array): ReadableStream<Uint8Array> => {
  let offset = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (offset >= bytes.length) return controller.close();
    controller.enqueue(bytes.subarray(offset, offset + partBytes));
    offset += partBytes;
  };
  return new ReadableStream({ pull }, { highWaterMark: 0 });
};
