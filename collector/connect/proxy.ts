import type { Environment } from "#kit/env.ts";
import type { CollectorConfig } from "#proto/collector-config/parse.ts";
import { isProxyBypassed, type Server } from "./no-proxy.ts";
import { tlsServer } from "./resume-tls.ts";

/** A proxy, as a config names it. Only a URL of the environment has credentials. */
export type ConnectProxy = Exclude<CollectorConfig["proxy"], "environment" | undefined>;

/** Decides how servers are reached: the `proxy` of a config, and the environment, which counts only if that names it. */
export interface ProxyChoice {
  setting: CollectorConfig["proxy"];
  variables: Environment;
}

/** The way through a proxy failed. The message is one line, and has no credentials. */
export class ProxyError extends Error {
  override readonly name = "ProxyError";
  readonly code: "unreachable" | "server_untrusted";

  constructor(message: string, options?: ErrorOptions & { code?: ProxyError["code"] }) {
    super(message, options);
    this.code = options?.code ?? "unreachable";
  }
}

const proxyVariable = ({ HTTPS_PROXY, https_proxy }: Environment) => HTTPS_PROXY || https_proxy;

/** Returns the proxy through which a server is reached; undefined if directly. Throws `ProxyError` for a variable that names none. */
export const chooseProxy = (
  { setting, variables }: ProxyChoice,
  server: Server,
): ConnectProxy | undefined => {
  const proxy = setting === "environment" ? proxyOfEnvironment(variables) : setting;
  return proxy === undefined || isProxyBypassed(proxy.noProxy, server) ? undefined : proxy;
};

const proxyOfEnvironment = (variables: Environment): ConnectProxy | undefined => {
  const text = proxyVariable(variables);
  if (!text) return undefined;
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new ProxyError("HTTPS_PROXY is not the URL of an http:// or https:// proxy");
  if (!isPercentEncoded(url.username + url.password))
    throw new ProxyError("HTTPS_PROXY has credentials that are not percent-encoded: % is %25");
  const noProxy = (variables.NO_PROXY || variables.no_proxy || "").split(/[\s,]+/);
  return { url: url.href, noProxy, credentialsFile: undefined, caFile: undefined };
};

const isPercentEncoded = (text: string) => {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
};

/** Names a proxy to people: `host:port`. */
export const proxyName = ({ url }: ConnectProxy): string => {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
};

/** Returns what to say of a proxy of the environment that no config names; null without one. */
export const unusedProxy = ({ setting, variables }: ProxyChoice): string | null =>
  setting === undefined && proxyVariable(variables)
    ? "HTTPS_PROXY is set and not used: proxy is not configured"
    : null;

/** Says how core's ingest and management are reached, for `status` and `diag`. */
export const describeRoutes = (
  { forwarder, management, proxy }: Pick<CollectorConfig, "forwarder" | "management" | "proxy">,
  variables: Environment,
): { ingest: string; management: string | null; note: string | null } => {
  const choice = { setting: proxy, variables };
  return {
    ingest: describeRoute(choice, `https://${forwarder.endpoint}`),
    management: management.coreUrl === undefined ? null : describeRoute(choice, management.coreUrl),
    note: unusedProxy(choice),
  };
};

const describeRoute = (choice: ProxyChoice, url: string): string => {
  try {
    const proxy = chooseProxy(choice, tlsServer(new URL(url), undefined));
    return proxy === undefined ? "direct" : `through the proxy ${proxyName(proxy)}`;
  } catch (error) {
    return (error as ProxyError).message;
  }
};
