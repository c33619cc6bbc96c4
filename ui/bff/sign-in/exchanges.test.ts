import { expect, it } from "vitest";
import { createExchanges, ExchangeEvicted } from "./complete.ts";

const setUp = () => {
  const exchanges = createExchanges();
  const evicted: string[] = [];
  let attempts = 0;
  /** Starts an exchange that never ends by itself. */
  const stall = (address: string, attempt = `attempt ${attempts++}`) => {
    exchanges
      .run({ attempt, address }, () => new Promise(() => undefined))
      .catch((error: unknown) => error instanceof ExchangeEvicted && evicted.push(attempt));
    return attempt;
  };
  return {
    exchanges,
    evicted,
    stall,
    settled: () => new Promise((resolve) => setImmediate(resolve)),
  };
};

it("evict the oldest of an address that has 64, and none of other addresses", async () => {
  const { evicted, stall, settled } = setUp();
  stall("192.0.2.1");
  const mine = Array.from({ length: 66 }, () => stall("192.0.2.2"));
  await settled();
  expect(evicted).toEqual(mine.slice(0, 2));
});

it("count an IPv6 /64 as one address, and an IPv4-mapped address as its IPv4 address", async () => {
  const { evicted, stall, settled } = setUp();
  for (let at = 0; at < 65; at++) stall(`2001:db8::${at.toString(16)}`);
  for (let at = 0; at < 65; at++) stall(at % 2 === 0 ? "192.0.2.1" : "::ffff:192.0.2.1");
  await settled();
  expect(evicted).toEqual(["attempt 0", "attempt 65"]);
});

it("evict the oldest of the address with most when there are 256 in all", async () => {
  const { evicted, stall, settled } = setUp();
  const some = stall("192.0.2.0");
  const most = Array.from({ length: 50 }, () => stall("192.0.2.1"));
  for (let at = 0; at < 205; at++) stall(`198.51.100.${at}`);
  await settled();
  expect(evicted).toEqual([]);
  stall("203.0.113.1");
  await settled();
  expect(evicted).toEqual([most[0]]);
  expect(evicted).not.toContain(some);
});

it("evict an older callback of the same attempt", async () => {
  const { evicted, stall, settled } = setUp();
  const attempt = stall("192.0.2.1");
  stall("192.0.2.1");
  stall("192.0.2.9", attempt);
  await settled();
  expect(evicted).toEqual([attempt]);
});

it("release their slot when they succeed or fail", async () => {
  const { exchanges, evicted, stall, settled } = setUp();
  const address = "192.0.2.1";
  for (let at = 0; at < 100; at++) {
    expect(await exchanges.run({ attempt: `good ${at}`, address }, async () => at)).toBe(at);
    const failing = exchanges.run({ attempt: `bad ${at}`, address }, () =>
      Promise.reject(new Error("no")),
    );
    await expect(failing).rejects.toThrow("no");
  }
  for (let at = 0; at < 64; at++) stall(address);
  await settled();
  expect(evicted).toEqual([]);
});
