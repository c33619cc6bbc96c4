import { SignJWT } from "jose";
import { expect, it } from "vitest";
import { verifyIssuerToken } from "./verify-issuer-token.ts";

it("O3: parses no header or payload of a token over 64 KiB", async () => {
  const secret = new TextEncoder().encode("a-test-secret-of-more-than-32-bytes");
  const verify = async (claim: string) => {
    const token = await new SignJWT({ claim }).setProtectedHeader({ alg: "HS256" }).sign(secret);
    return verifyIssuerToken(token, async () => secret, { issuer: "i", audience: "a", now: 0 });
  };
  await expect(verify("x".repeat(40_000))).rejects.toThrow("Algorithm");
  await expect(verify("x".repeat(50_000))).rejects.toThrow("the token is over 65536 bytes");
});
