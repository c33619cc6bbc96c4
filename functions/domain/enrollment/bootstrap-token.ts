import type { Entropy } from "#kit/entropy.ts";

/** The cap of a token's lifetime: 7 days. */
export const tokenTtlSecondsMax = 604_800;

/** The lifetime of a token whose `ttl_seconds` is 0 or absent: one hour. */
export const tokenTtlSecondsDefault = 3600;

/** The state of a token, in order of precedence. */
type OwnTokenState = "revoked" | "expired" | "exhausted" | "active";

/** Returns the state of a token at `now`, regardless of its policy. */
export const tokenState = (
  token: { revokedAt: Date | null; expiresAt: Date; maxUses: number; useCount: number },
  now: number,
): OwnTokenState => {
  if (token.revokedAt !== null) return "revoked";
  if (token.expiresAt.getTime() <= now) return "expired";
  if (token.maxUses > 0 && token.useCount >= token.maxUses) return "exhausted";
  return "active";
};

const prefix = "svcbt_";
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const pattern = /^svcbt_[0-9A-Za-z]{49}$/;
const secretBits = 256;
const secretCharacters = 43;
const checksumCharacters = 6;

/** How many characters of a token are shown after its creation. */
export const tokenPrefixCharacters = 12;

/**
 * Creates the raw value of a bootstrap token: `svcbt_`, 256 random bits in base62, and a CRC-32 of all before it. A secret scanner can
 * recognise it, and core rejects a typo without a query.
 */
export const generateToken = (entropy: Entropy): string => {
  const bits = entropy
    .bytes(secretBits / 8)
    .reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  const body = prefix + base62(bits, secretCharacters);
  return body + checksum(body);
};

/** Reports whether `text` has the form of a token and a correct checksum, whether or not core issued it. */
export const isWellFormedToken = (text: string): boolean =>
  pattern.test(text) &&
  checksum(text.slice(0, -checksumCharacters)) === text.slice(-checksumCharacters);

const checksum = (text: string) => base62(BigInt(crc32(text)), checksumCharacters);

const base62 = (value: bigint, characters: number) => {
  let text = "";
  for (let rest = value; text.length < characters; rest /= 62n)
    text = (alphabet[Number(rest % 62n)] ?? "") + text;
  return text;
};

/** Returns the CRC-32 of IEEE 802.3 (reflected, polynomial 0xEDB88320) over the ASCII of `text`. */
const crc32 = (text: string) => {
  let crc = 0xffffffff;
  for (let at = 0; at < text.length; at++)
    crc = (crc >>> 8) ^ (crcOfByte[(crc ^ text.charCodeAt(at)) & 0xff] ?? 0);
  return (crc ^ 0xffffffff) >>> 0;
};

const crcOfByte = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});
