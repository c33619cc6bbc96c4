import ipaddr from "ipaddr.js";

/** An address as it counts: an IPv4-mapped IPv6 address is its IPv4. Undefined for what is no address. */
const readAddress = (text: string) => {
  const bare = text.split("%")[0] ?? "";
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
};

/** A CIDR in the form that addresses are compared with; undefined for what is none. */
export const readCidr = (text: string) => {
  if (!ipaddr.isValidCIDR(text)) return undefined;
  const [network, bits] = ipaddr.parseCIDR(text);
  if (network.kind() === "ipv6" && bits >= 96 && (network as ipaddr.IPv6).isIPv4MappedAddress()) {
    return { network: (network as ipaddr.IPv6).toIPv4Address(), bits: bits - 96 };
  }
  return { network, bits };
};

/** Whether an address lies in one of the CIDRs; an empty list allows any, and what is no address lies in none. */
export const addressAllowed = (cidrs: readonly string[], address: string): boolean => {
  if (cidrs.length === 0) return true;
  const parsed = readAddress(address);
  if (parsed === undefined) return false;
  return cidrs.some((text) => {
    const cidr = readCidr(text);
    return cidr !== undefined && cidr.network.kind() === parsed.kind() && parsed.match(cidr.network, cidr.bits);
  });
};

/** What attempts are counted by: the IPv4 address, or the /64 of an IPv6 address, which is one client's as a rule. */
export const addressKey = (address: string): string => {
  const parsed = readAddress(address);
  if (parsed === undefined) return "unknown";
  if (parsed.kind() === "ipv4") return parsed.toString();
  const bytes = parsed.toByteArray().map((byte, index) => (index < 8 ? byte : 0));
  return `${ipaddr.fromByteArray(bytes).toString()}/64`;
};
