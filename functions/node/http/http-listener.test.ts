import { connect } from "node:net";
import { text } from "node:stream/consumers";
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

  it.each(["1.0", "1.1"])("W1: serves requests of HTTP/%s whatever their Host is, or without one", async (version) => {
    const listener = await listenHttp(app, { port: 0, host: "127.0.0.1" });
    for (const host of ["", "Host:\r\n", "Host: [x\r\n", "Host: x:99999\r\n", "Host: ::1:8443\r\n", "Host: a b\r\n"]) {
      const socket = connect(listener.port, "127.0.0.1");
      socket.write(`GET / HTTP/${version}\r\n${host}Connection: close\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1.1 200 OK\r\n.*fine$/s);
    }
    await listener.close(0);
  });

  it("answers on every interface without a configured address", async () => {
    const listener = await listenHttp(app, { port: 0, host: null });
    expect(await get("127.0.0.2", listener.port)).toBe("fine");
    await listener.close(0);
  });
});
