import { BlockList, isIP } from "node:net";

/** A server that a connection is for. An IPv6 address has no brackets. */
export interface Server {
  host: string;
  port: number;
}

/**
 * Reports whether a list like that of NO_PROXY names a server: by `*`, by its address or a CIDR block, by its name or that of a domain above it,
 * or by `.example.com` for what is below it; each but `*` and a block may end in `:port`. An entry that is none of these names no server.
 */
export const isProxyBypassed = (entries: readonly string[], { host, port }: Server): boolean => {
  const name = withoutDot(host);
  return entries.some((text) => {
    const entry = text.trim().toLowerCase();
    if (entry === "*") return true;
    if (entry.includes("/")) return isInBlock(entry, name);
    const [, bracketed, plain, only] = /^(?:\[(.*)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [];
    if (only !== undefined && Number(only) !== port) return false;
    const pattern = withoutDot(bracketed ?? plain ?? entry);
    if (isIP(pattern) > 0) return isInBlock(`${pattern}/${isIP(pattern) === 6 ? 128 : 32}`, name);
    const domain = pattern.replace(/^\*(?=\.)/, "");
    if (domain === "" || domain === ".") return false;
    return name === domain || name.endsWith(domain.startsWith(".") ? domain : `.${domain}`);
  });
};

const withoutDot = (host: string) => host.toLowerCase().replace(/(?<=.)\.$/, "");

const family = (address: string) => (isIP(address) === 6 ? "ipv6" : "ipv4");

const isInBlock = (block: string, host: string): boolean => {
  const [network = "", bits = ""] = block.split("/");
  const bitsMax = isIP(network) === 6 ? 128 : 32;
  if (isIP(host) === 0 || isIP(network) === 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > bitsMax)
    return false;
  const blocks = new BlockList();
  blocks.addSubnet(network, Number(bits), family(network));
  return blocks.check(host, family(host));
};
