import ipaddr from "ipaddr.js";

/** Parses an address; an IPv4-mapped IPv6 address becomes its IPv4 address. Undefined for text that is not an address. */
const readAddress = (text: string) => {
  const bare = text.split("%")[0] ?? "";
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
};

/**
 * Parses a CIDR; IPv4-mapped IPv6 networks become IPv4. Undefined for text that is not one: IPv4 has four decimal parts without leading
 * zeros, as `127.5/16` and `010.0.0.0/8` mean different networks to different programs; IPv6 has no zone, and the prefix length no
 * leading zeros.
 */
export const readCidr = (text: string) => {
  const [address = "", length = ""] = text.split("/");
  const isAddress = address.includes(":")
    ? !address.includes("%")
    : ipaddr.IPv4.isValidFourPartDecimal(address);
  if (!isAddress || !/^(0|[1-9]\d{0,2})$/.test(length) || !ipaddr.isValidCIDR(text))
    return undefined;
  const [network, bits] = ipaddr.parseCIDR(text);
  if (network.kind() === "ipv6" && bits >= 96 && (network as ipaddr.IPv6).isIPv4MappedAddress()) {
    return { network: (network as ipaddr.IPv6).toIPv4Address(), bits: bits - 96 };
  }
  return { network, bits };
};

/** Reports whether an address is public: not private, loopback, link-local, for documentation, or one that embeds another. */
export const isPublicAddress = (text: string): boolean => readAddress(text)?.range() === "unicast";

/** Reports whether an address is in one of the CIDRs. An empty list allows any text; text that is not an address is in no CIDR. */
export const addressAllowed = (cidrs: readonly string[], address: string): boolean => {
  if (cidrs.length === 0) return true;
  const parsed = readAddress(address);
  if (parsed === undefined) return false;
  return cidrs.some((text) => {
    const cidr = readCidr(text);
    return (
      cidr !== undefined &&
      cidr.network.kind() === parsed.kind() &&
      parsed.match(cidr.network, cidr.bits)
    );
  });
};

/**
 * Returns the key by which attempts are counted: the IPv4 address, or the network of an IPv6 address. One client usually has a /64, and one
 * customer of a provider up to a /48.
 */
export const addressKey = (address: string, ipv6Bits: 48 | 64 = 64): string => {
  const parsed = readAddress(address);
  if (parsed === undefined) return "unknown";
  return parsed.kind() === "ipv4" ? parsed.toString() : networkOf(parsed, ipv6Bits);
};

/** Returns the subnet of an address: its /24, or the /64 of an IPv6 address. Empty for text that is not an address. */
export const subnetOf = (address: string): string => {
  const parsed = readAddress(address);
  return parsed === undefined ? "" : networkOf(parsed, parsed.kind() === "ipv4" ? 24 : 64);
};

const networkOf = (address: ipaddr.IPv4 | ipaddr.IPv6, bits: number) => {
  const bytes = address.toByteArray().map((byte, index) => (index < bits / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(bytes).toString()}/${bits}`;
};
