import { crc32 } from "node:zlib";
import { expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { generateToken, isWellFormedToken } from "./bootstrap-token.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

it("the checksum of a token is the CRC-32 of zlib over all before it, in six characters of base62", () => {
  const entropy = createSeededEntropy();
  for (let count = 0; count < 200; count++) {
    const token = generateToken(entropy);
    let rest = crc32(token.slice(0, -6));
    let checksum = "";
    for (let at = 0; at < 6; at++, rest = Math.floor(rest / 62))
      checksum = (alphabet[rest % 62] ?? "") + checksum;
    expect(token.slice(-6)).toBe(checksum);
    expect(isWellFormedToken(token)).toBe(true);
    const other = token[20] === "x" ? "y" : "x";
    expect(isWellFormedToken(token.slice(0, 20) + other + token.slice(21))).toBe(false);
  }
});
