import { expect, it } from "vitest";
import { isProxyBypassed } from "./no-proxy.ts";

it.each([
  ["*", "core.test:8443"],
  ["core.test", "core.test:8443"],
  ["CORE.test.", "Core.Test:8443"],
  ["core.test", "core.test.:443"],
  ["test", "core.test:443"],
  [".test", "core.test:443"],
  ["*.test", "core.test:443"],
  ["core.test:8443", "core.test:8443"],
  [" 10.1.2.3 ", "10.1.2.3:443"],
  ["10.1.2.3:443", "10.1.2.3:443"],
  ["10.0.0.0/8", "10.1.2.3:443"],
  ["0.0.0.0/0", "10.1.2.3:443"],
  ["10.0.0.0/8", "[::ffff:10.1.2.3]:443"],
  ["fd00::/8", "[fd12::1]:443"],
  ["::1", "[::1]:443"],
  ["[0:0:0:0:0:0:0:1]", "[::1]:443"],
  ["[::1]:443", "[::1]:443"],
])("%s names %s", (entry, server) => expect(isNamed(entry, server)).toBe(true));

it.each([
  ["", "core.test:443"],
  [".", "core.test:443"],
  ["*.", "core.test:443"],
  ["core.test", "xcore.test:443"],
  ["core.test", "core.test.example:443"],
  [".core.test", "core.test:443"],
  ["*.core.test", "core.test:443"],
  ["core.test:8443", "core.test:443"],
  ["10.1.2.3:8443", "10.1.2.3:443"],
  ["10.1.2.3", "10.1.2.30:443"],
  ["10.0.0.0/8", "11.1.2.3:443"],
  ["10.0.0.0/8", "10.test:443"],
  ["10.0.0.0/33", "10.1.2.3:443"],
  ["10.0.0.0/", "10.1.2.3:443"],
  ["core.test/8", "core.test:443"],
  ["fd00::/8", "[fe80::1]:443"],
  ["fd00::/129", "[fd12::1]:443"],
  ["[::1]:8443", "[::1]:443"],
  ["http://core.test", "core.test:443"],
])("%s does not name %s", (entry, server) => expect(isNamed(entry, server)).toBe(false));

const isNamed = (entry: string, server: string) => {
  const { hostname, port } = new URL(`https://${server}`);
  const host = hostname.replace(/^\[|\]$/g, "");
  return isProxyBypassed(["other.test", entry], { host, port: Number(port || 443) });
};
