import document from "../../proto/openapi.json" with { type: "json" };
import { anyone } from "../http/guards.ts";
import { route } from "../http/route.ts";

/** `GET /v1/openapi.json`: this API as an OpenAPI 3.1 document, generated from the same list of routes that serves it. */
export const openApiRoute = () =>
  route({
    method: "GET",
    path: "/v1/openapi.json",
    operationId: "openapi",
    summary: "This document",
    guard: anyone,
    replies: { 200: { description: "OpenAPI 3.1" } },
    handle: async () => ({ status: 200, body: document, headers: { "Cache-Control": "public, max-age=300" } }),
  });
