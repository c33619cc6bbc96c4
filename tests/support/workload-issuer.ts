import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

/** Publishes a key on loopback. */
export const publishWorkloadKeys = async () => {
  const { publicKey, privateKey } = await generateKeyPair("RS256");
  const jwk = await exportJWK(publicKey);
  const server = createServer((_, response) =>
    response.end(JSON.stringify({ keys: [{ ...jwk, kid: "one" }] })),
  );
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    /** The address of its JWKS. */
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
    /** Returns a token of the issuer at `now`, in milliseconds, for five minutes. */
    sign: (
      claims: { iss: string; aud: string; sub: string } & Record<string, unknown>,
      now: number,
    ) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "RS256", kid: "one" })
        .setIssuedAt(Math.floor(now / 1000))
        .setExpirationTime(Math.floor(now / 1000) + 300)
        .sign(privateKey),
    close: () => server.close(),
  };
};
