import { expect } from "vitest";
import type { TestCollector } from "./collector.ts";
import type { TestCore } from "./core.ts";

/** Returns the function that posts an OpAMP message with a host's certificate, and fails unless core accepts it. */
export const postAs =
  ({ fetch }: Pick<TestCore, "fetch">, { certificate }: Pick<TestCollector, "certificate">) =>
  async (body: Uint8Array<ArrayBuffer>): Promise<Uint8Array> => {
    const headers = { "content-type": "application/x-protobuf" };
    const request = new Request("http://core.test/v1/opamp", { method: "POST", headers, body });
    const response = await fetch(request, { listener: "ingest", certificate });
    expect(response.status).toBe(200);
    return new Uint8Array(await response.arrayBuffer());
  };
