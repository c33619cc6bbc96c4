import { describe, expect, it } from "vitest";
import { createExchanges, GaveWay } from "./exchanges.ts";

const setUp = () => {
  const exchanges = createExchanges();
  const gaveWay: string[] = [];
  let attempts = 0;
  /** Begins an exchange that never ends by itself. */
  const stall = (address: string, attempt = `attempt ${attempts++}`) => {
    exchanges
      .run({ attempt, address }, (signal) => new Promise((_, reject) => signal.addEventListener("abort", reject)))
      .catch((error: unknown) => error instanceof GaveWay && gaveWay.push(attempt));
    return attempt;
  };
  return { exchanges, gaveWay, stall, settled: () => new Promise((resolve) => setImmediate(resolve)) };
};

describe("exchanges with a provider that stalls", () => {
  it("give way, the oldest first, to newer ones of their address when it has 64; other addresses keep theirs", async () => {
    const { gaveWay, stall, settled } = setUp();
    stall("192.0.2.1");
    const mine = Array.from({ length: 66 }, () => stall("192.0.2.2"));
    await settled();
    expect(gaveWay).toEqual(mine.slice(0, 2));
  });

  it("count an IPv6 network of 64 bits as one address, and an IPv4-mapped address as its IPv4", async () => {
    const { gaveWay, stall, settled } = setUp();
    for (let at = 0; at < 65; at++) stall(`2001:db8::${at.toString(16)}`);
    for (let at = 0; at < 65; at++) stall(at % 2 === 0 ? "192.0.2.1" : "::ffff:192.0.2.1");
    await settled();
    expect(gaveWay).toEqual(["attempt 0", "attempt 65"]);
  });

  it("give way in all when there are 256: the oldest of the address that has most", async () => {
    const { gaveWay, stall, settled } = setUp();
    const some = stall("192.0.2.0");
    const most = Array.from({ length: 50 }, () => stall("192.0.2.1"));
    for (let at = 0; at < 205; at++) stall(`198.51.100.${at}`);
    await settled();
    expect(gaveWay).toEqual([]);
    stall("203.0.113.1");
    await settled();
    expect(gaveWay).toEqual([most[0]]);
    expect(gaveWay).not.toContain(some);
  });

  it("give way to a newer callback of the same attempt", async () => {
    const { gaveWay, stall, settled } = setUp();
    const attempt = stall("192.0.2.1");
    stall("192.0.2.1");
    stall("192.0.2.9", attempt);
    await settled();
    expect(gaveWay).toEqual([attempt]);
  });

  it("free their place when they end, well or badly", async () => {
    const { exchanges, gaveWay, stall, settled } = setUp();
    const address = "192.0.2.1";
    for (let at = 0; at < 100; at++) {
      expect(await exchanges.run({ attempt: `good ${at}`, address }, async () => at)).toBe(at);
      const failing = exchanges.run({ attempt: `bad ${at}`, address }, () => Promise.reject(new Error("no")));
      await expect(failing).rejects.toThrow("no");
    }
    for (let at = 0; at < 64; at++) stall(address);
    await settled();
    expect(gaveWay).toEqual([]);
  });
});
