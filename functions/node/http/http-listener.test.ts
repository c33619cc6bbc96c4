import { createHash, randomBytes } from "node:crypto";
import { type IncomingMessage, get as requestOf } from "node:http";
import { connect } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
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

  describe.each([
    ["zstd", zstdDecompressSync],
    ["br", brotliDecompressSync],
    ["gzip", gunzipSync],
  ])("compresses a file by %s", (coding, decompress) => {
    /** Requests a file of `parts` random parts of 16 KiB each. */
    const download = async (parts: number) => {
      const file = { sent: 0, digest: createHash("sha256"), isCancelled: false };
      const body = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          if (file.sent === parts) return controller.close();
          const part = Buffer.from(randomBytes(8192).toString("hex"));
          file.digest.update(part);
          file.sent += 1;
          controller.enqueue(part);
        },
        cancel: () => {
          file.isCancelled = true;
        },
      });
      const csv = { fetch: () => new Response(body, { headers: { "Content-Type": "text/csv" } }) };
      const { port, close } = await listenHttp(csv, { port: 0, host: "127.0.0.1" });
      const options = { host: "127.0.0.1", port, headers: { "Accept-Encoding": coding } };
      const response = await new Promise<IncomingMessage>((resolve) => requestOf(options, resolve));
      expect(response.headers["content-encoding"]).toBe(coding);
      return { file, response, close };
    };

    it("whole", async () => {
      const { file, response, close } = await download(100);
      const bytes = await buffer(response);
      expect(bytes.length).toBeLessThan(0.7 * 100 * 16_384);
      expect(createHash("sha256").update(decompress(bytes)).digest()).toEqual(file.digest.digest());
      await close(0);
    });

    it("as far as the client reads, in bounded memory, and until it disconnects", async () => {
      const { file, response, close } = await download(Number.POSITIVE_INFINITY);
      let before = -1;
      const isStalled = () => {
        const sent = before;
        before = file.sent;
        return sent === before;
      };
      await expect.poll(isStalled).toBe(true);
      const ahead = file.sent;
      // The kernel's buffers of a loopback connection, twice as much before it was compressed.
      expect(ahead * 16_384).toBeLessThan(48 * 1024 * 1024);
      response.on("data", () => file.sent > ahead + 1000 && response.destroy());
      await expect.poll(() => file.isCancelled).toBe(true);
      expect(file.sent).toBeGreaterThan(ahead + 1000);
      await close(0);
    });
  });
});
