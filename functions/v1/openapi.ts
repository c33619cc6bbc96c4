import document from "../../proto/openapi.json" with { type: "json" };
import type { Core } from "../core.ts";
import { anyone } from "../http/guards.ts";
import { type Route, route } from "../http/route.ts";

/**
 * `GET /v1/openapi.json`: this API as an OpenAPI 3.1 document, generated from the same list of routes that serves it. The document and its
 * ETag are made once, at the first request.
 */
export const openApiRoute = ({ cryptography }: Pick<Core, "cryptography">): Route => {
  let made: Promise<{ content: Uint8Array<ArrayBuffer>; etag: string }> | undefined;
  const make = async () => {
    // As bytes, which all the responses share that clients have not read yet.
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
        text: { type: "application/json", content },
        headers: { "Cache-Control": "public, max-age=300", ETag: etag },
      };
    },
  });
};
