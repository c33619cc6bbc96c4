import { describe, expect, it } from "vitest";
import { listenHttp } from "./http-listener.ts";

const app = { fetch: () => new Response("fine") };
const get = async (host: string, port: number) => (await fetch(`http://${host}:${port}/`)).text();

describe("the HTTP listener", () => {
  it("answers on its configured address and on no other", async () => {
    const listener = await listenHttp(app, { port: 0, host: "127.0.0.1" });
    expect(await get("127.0.0.1", listener.port)).toBe("fine");
    await expect(get("127.0.0.2", listener.port)).rejects.toThrow();
    await listener.close(0);
  });

  it("answers on every interface without a configured address", async () => {
    const listener = await listenHttp(app, { port: 0, host: null });
    expect(await get("127.0.0.2", listener.port)).toBe("fine");
    await listener.close(0);
  });
});
