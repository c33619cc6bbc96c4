import { describe, expect, it } from "vitest";
import { clientAddress } from "./client-address.ts";

const trusted = ["10.0.0.0/8", "2001:db8:ed9e::/48"];
const client = (peer: string, forwardedFor?: string) =>
  clientAddress(trusted, { peer, forwardedFor });

describe("N3: the address of a client", () => {
  it.each([
    ["10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["10.0.0.1", "2001:db8::7", "2001:db8::7"],
    ["2001:db8:ed9e::1", "203.0.113.9", "203.0.113.9"],
    ["10.0.0.1", "198.51.100.1, 203.0.113.9 , 10.0.0.2", "203.0.113.9"],
    ["10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
  ])("behind the trusted proxy %s with X-Forwarded-For %s is %s", (peer, forwardedFor, address) => {
    expect(client(peer, forwardedFor)).toBe(address);
  });

  it.each([
    ["203.0.113.7:51234", "203.0.113.7"],
    ["[2001:db8::1]:443", "2001:db8::1"],
    ["::1", "::1"],
    ["198.51.100.1:1, 203.0.113.7:51234, 10.0.0.2:443", "203.0.113.7"],
  ])("W1: behind a trusted proxy that writes %s is %s", (forwardedFor, address) => {
    expect(client("10.0.0.1", forwardedFor)).toBe(address);
  });

  it.each([
    ["192.0.2.1", "203.0.113.9"],
    ["10.0.0.1", undefined],
    ["10.0.0.1", ""],
    ["10.0.0.1", "203.0.113.9, unknown"],
    ["10.0.0.1", "127.1"],
    ["10.0.0.1", "203.0.113.7:443:1"],
    ["10.0.0.1", "[2001:db8::7]443"],
    ["10.0.0.1", `[${"[".repeat(100_000)}`],
    ["10.0.0.1", ",".repeat(100_000)],
  ])("of the peer %s with X-Forwarded-For %.30s is the peer's", (peer, forwardedFor) => {
    expect(client(peer, forwardedFor)).toBe(peer);
  });

  it("is the peer's without a trusted proxy, whatever it claims", () => {
    expect(clientAddress([], { peer: "10.0.0.1", forwardedFor: "203.0.113.9" })).toBe("10.0.0.1");
  });
});
