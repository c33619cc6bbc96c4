import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { listenOnLoopback } from "#scripts/ports.ts";

/** Starts an issuer of tokens on loopback, as a platform is: it publishes its discovery document and the key that signs. */
export const startTokenIssuer = async ({
  alg = "ES256",
  tls,
}: {
  alg?: "ES256" | "RS256";
  /** Serves over TLS with these credentials of `localhost`. */
  tls?: { cert: string; key: string };
} = {}) => {
  let keys = 0;
  const nextKey = async () => ({ kid: `key-${++keys}`, ...(await generateKeyPair(alg)) });
  let key = await nextKey();
  const listen: RequestListener = async (request, response) => {
    const { url, keysPath, isDown } = issuer;
    const { kid, publicKey } = key;
    const documents: Record<string, object> = {
      "/.well-known/openid-configuration": { issuer: url, jwks_uri: url + keysPath },
      [keysPath]: { keys: [{ ...(await exportJWK(publicKey)), kid, alg, use: "sig" }] },
    };
    const found = isDown ? undefined : documents[request.url ?? ""];
    response.writeHead(found ? 200 : 503, { "Content-Type": "application/json" });
    response.end(JSON.stringify(found ?? {}));
  };
  const server = tls === undefined ? createServer(listen) : createTlsServer(tls, listen);
  const port = await listenOnLoopback(server);
  const origin = tls === undefined ? "http://127.0.0.1" : "https://localhost";
  const issuer = {
    url: `${origin}:${port}`,
    keysPath: "/keys",
    /** Answers no request with what it asks for. */
    isDown: false,
    /** The key that signs. */
    key: () => key,
    /** Replaces that key: the old one is published no more. */
    rotate: async () => {
      key = await nextKey();
    },
    /** Signs claims, which are the issuer's own unless they name another, by its key unless another is given. */
    sign: (claims: JWTPayload, { kid, privateKey }: Pick<typeof key, "kid" | "privateKey"> = key) =>
      new SignJWT({ iss: issuer.url, ...claims }).setProtectedHeader({ alg, kid }).sign(privateKey),
    close: () => server.close(),
  };
  return issuer;
};
