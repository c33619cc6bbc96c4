import ipaddr from "ipaddr.js";
import { composeIdentity } from "../../../proto/identity.ts";

/** The cap of `certificate_ttl_seconds`: 30 days (spec, "Limits"). */
export const certificateTtlSecondsMax = 2_592_000;

/** The cap of a token's life: 7 days (spec, "Limits"). */
export const tokenTtlSecondsMax = 604_800;

/** The life of a token whose `ttl_seconds` is 0 or absent: one hour. */
export const tokenTtlSecondsDefault = 3600;

/** What is left of a token's use at a moment; the first of these that applies is shown. */
export type TokenState = "revoked" | "expired" | "exhausted" | "active";

/** The state of a token, whatever its policy's. */
export const tokenState = (
  token: { revokedAt: Date | null; expiresAt: Date; maxUses: number; useCount: number },
  now: number,
): TokenState => {
  if (token.revokedAt !== null) return "revoked";
  if (token.expiresAt.getTime() <= now) return "expired";
  if (token.maxUses > 0 && token.useCount >= token.maxUses) return "exhausted";
  return "active";
};

/** Whether `identity` is one of the prefixes followed by the encoded device id, byte for byte. */
export const identityAllowed = (prefixes: readonly string[], deviceId: string, identity: string): boolean =>
  prefixes.some((prefix) => composeIdentity(prefix, deviceId) === identity);

/** Whether `os/arch` is among the allowed `os` and `os/arch`; an empty list allows any. */
export const platformAllowed = (allowed: readonly string[], platform: string): boolean =>
  allowed.length === 0 || allowed.includes(platform) || allowed.includes(platform.split("/")[0] ?? "");

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

/** What failed uses are counted by: the IPv4 address, or the /64 of an IPv6 address. */
export const addressKey = (address: string): string => {
  const parsed = readAddress(address);
  if (parsed === undefined) return "unknown";
  if (parsed.kind() === "ipv4") return parsed.toString();
  const bytes = parsed.toByteArray().map((byte, index) => (index < 8 ? byte : 0));
  return `${ipaddr.fromByteArray(bytes).toString()}/64`;
};
