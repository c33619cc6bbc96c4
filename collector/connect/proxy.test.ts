import { expect, it } from "vitest";
import { chooseProxy, describeRoutes, proxyName } from "./proxy.ts";

const core = { host: "core.test", port: 8443 };
const url = "http://proxy.test:3128";
const configured = { url, noProxy: ["ingest.test"], credentialsFile: undefined, caFile: undefined };
const nameOf = (variables: Record<string, string>) => {
  const proxy = chooseProxy({ setting: "environment", variables }, core);
  return proxy && proxyName(proxy);
};

it.each([
  [{ HTTPS_PROXY: url }, "proxy.test:3128"],
  [{ https_proxy: url }, "proxy.test:3128"],
  [{ HTTPS_PROXY: url, https_proxy: "http://other.test" }, "proxy.test:3128"],
  [{ HTTPS_PROXY: "proxy.test:3128" }, "proxy.test:3128"],
  [{ HTTPS_PROXY: "https://user:secret@proxy.test" }, "proxy.test:443"],
  [{ HTTPS_PROXY: "http://[::1]" }, "[::1]:80"],
  [{ HTTPS_PROXY: url, NO_PROXY: "a.test, core.test" }, undefined],
  [{ HTTPS_PROXY: url, no_proxy: "a.test core.test" }, undefined],
  [{ HTTPS_PROXY: "" }, undefined],
  [{ HTTP_PROXY: url, ALL_PROXY: url }, undefined],
] as [Record<string, string>, string | undefined][])("%o means the proxy %s", (variables, name) => {
  expect(nameOf(variables)).toBe(name);
});

it.each(["socks5://user:secret@proxy.test", "http://user:secret@[::", "::"])(
  "rejects %s without a word of it",
  (text) => {
    expect(() => nameOf({ HTTPS_PROXY: text })).toThrow(
      /^HTTPS_PROXY is not the URL of an http:\/\/ or https:\/\/ proxy$/,
    );
  },
);

it.each(["http://user:50%@proxy.test", "http://%ff:x@proxy.test"])(
  "rejects the credentials of %s without a word of them",
  (text) => {
    expect(() => nameOf({ HTTPS_PROXY: text })).toThrow(
      /^HTTPS_PROXY has credentials that are not percent-encoded: % is %25$/,
    );
    expect(nameOf({ HTTPS_PROXY: text.replace(/%(ff)?/, "%25") })).toBe("proxy.test:80");
  },
);

it("says how ingest and management are reached, and that a proxy of the environment is not used", () => {
  const config = {
    forwarder: { endpoint: "ingest.test:8443" },
    management: { coreUrl: "https://core.test" },
  } as Parameters<typeof describeRoutes>[0];
  const variables = { HTTPS_PROXY: "http://user:secret@other.test:3128" };
  expect(describeRoutes({ ...config, proxy: configured }, variables)).toEqual({
    ingest: "direct",
    management: "through the proxy proxy.test:3128",
    note: null,
  });
  expect(describeRoutes({ ...config, proxy: "environment" }, variables)).toEqual({
    ingest: "through the proxy other.test:3128",
    management: "through the proxy other.test:3128",
    note: null,
  });
  expect(describeRoutes({ ...config, proxy: undefined }, variables)).toEqual({
    ingest: "direct",
    management: "direct",
    note: "HTTPS_PROXY is set and not used: proxy is not configured",
  });
  expect(describeRoutes({ ...config, proxy: undefined }, {}).note).toBeNull();
});
