import { Hono } from "hono";
import { expect, it, onTestFinished, vi } from "vitest";
import type { HttpEnv } from "./http/request.ts";
import { createWorker, edgePeerOf } from "./worker.ts";

it("reads CF-Connecting-IP only when the deployment is on Cloudflare: elsewhere the client chooses it", async () => {
  const addressWhen = async (onCloudflare: boolean) => {
    const app = new Hono<HttpEnv>();
    app.get("/", (c) => c.text(edgePeerOf(c, { onCloudflare }).remoteAddress));
    return (await app.request("/", { headers: { "CF-Connecting-IP": "203.0.113.9" } })).text();
  };
  expect(await addressWhen(true)).toBe("203.0.113.9");
  expect(await addressWhen(false)).toBe("");
});

it("answers a configuration error as a problem that names nothing", async () => {
  const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
  onTestFinished(() => logged.mockRestore());
  const request = new Request("http://core.test/v1/whoami", {
    headers: { "X-Request-Id": "order-66" },
  });
  const response = await createWorker().fetch(
    request,
    { SVC_AUTH_TOKEN_SECRET: "short" },
    { waitUntil: () => undefined },
  );
  const text = await response.text();
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(JSON.parse(text)).toMatchObject({
    status: 500,
    code: "internal",
    action: "retry",
    request_id: "order-66",
  });
  expect(text).not.toContain("SVC_");
  expect(JSON.stringify(logged.mock.calls)).toContain("SVC_AUTH_TOKEN_SECRET");
});
