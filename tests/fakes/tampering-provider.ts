import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from "jose";
import { startLoopbackServer } from "#scripts/lab/loopback-server.ts";

/** The faults of the provider; each test sets its own. */
export interface Tampering {
  /** Put into the metadata over the right members. */
  metadata?: Record<string, unknown>;
  /** Put into the id_token over the right claims. */
  claims?: Record<string, unknown>;
  /** Signs the claims in place of the provider's key. */
  sign?: (claims: Record<string, unknown>) => string | Promise<string>;
  /** Answers the request for a token, or for the keys, in place of the provider. */
  token?: { status: number; body: string } | Promise<{ status: number; body: string }>;
  jwks?: { status: number; body: string } | Promise<{ status: number; body: string }>;
}

/** Returns what signs claims by another algorithm or key than the provider's; a text is a shared secret. */
export const signedWith =
  (alg: string, key: CryptoKey | string, kid = "first") =>
  (claims: Record<string, unknown>) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg, kid })
      .sign(typeof key === "string" ? new TextEncoder().encode(key) : key);

/** A provider with configurable faults that a real one does not have (A1). */
export type TamperingProvider = Awaited<ReturnType<typeof startTamperingProvider>>;

/** Starts one over loopback. Tokens are for `subject`, issued `now()` milliseconds after the epoch, for five minutes. */
export const startTamperingProvider = async (options: { subject: string; now(): number }) => {
  const { server, url: issuer, close } = await startLoopbackServer();
  const clientId = "svc-web";
  const clientSecret = "a client secret";
  const grants = new Map<string, { nonce: string; challenge: string }>();
  const requests = new Map<string, number>();
  const waiting: string[] = [];
  let key = await makeKey("first");

  const token = async (request: IncomingMessage) => {
    const form = new URLSearchParams(await text(request));
    const grant = grants.get(form.get("code") ?? "");
    grants.delete(form.get("code") ?? "");
    const challenge = hash("sha256", form.get("code_verifier") ?? "", "base64url");
    const basic = `Basic ${btoa("svc-web:a+client+secret")}`;
    if (request.headers.authorization !== basic)
      return { status: 401, body: '{"error":"invalid_client"}' };
    if (grant?.challenge !== challenge) return { status: 400, body: '{"error":"invalid_grant"}' };
    const iat = Math.floor(options.now() / 1000);
    const { tampering, subject } = provider;
    const usual = {
      iss: issuer,
      sub: subject,
      aud: clientId,
      nonce: grant.nonce,
      iat,
      exp: iat + 300,
    };
    const claims = { ...usual, ...tampering.claims };
    const idToken = await (tampering.sign ?? key.sign)(claims);
    return {
      status: 200,
      body: JSON.stringify({ access_token: "opaque", token_type: "Bearer", id_token: idToken }),
    };
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? "";
    requests.set(path, (requests.get(path) ?? 0) + 1);
    waiting.push(path);
    response.once("close", () => waiting.splice(waiting.indexOf(path), 1));
    const json = (status: number, body: string) =>
      response.writeHead(status, { "Content-Type": "application/json" }).end(body);
    if (path === "/.well-known/openid-configuration") {
      const metadata = {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        authorization_response_iss_parameter_supported: true,
      };
      json(200, JSON.stringify({ ...metadata, ...provider.tampering.metadata }));
    } else if (path === "/jwks") {
      const keys = { status: 200, body: JSON.stringify({ keys: [key.jwk] }) };
      const { status, body } = await (provider.tampering.jwks ?? keys);
      json(status, body);
    } else if (path === "/token") {
      const { status, body } = await (provider.tampering.token ?? token(request));
      json(status, body);
    } else json(404, "{}");
  };
  server.on("request", (request, response) => void answer(request, response));

  const provider = {
    issuer,
    clientId,
    clientSecret,
    subject: options.subject,
    tampering: {} as Tampering,
    /** Visits the authorization endpoint as the browser would, and returns the address of the redirect. */
    authorize: (location: string) => {
      const asked = new URL(location).searchParams;
      const code = crypto.randomUUID();
      grants.set(code, {
        nonce: asked.get("nonce") ?? "",
        challenge: asked.get("code_challenge") ?? "",
      });
      const back = new URL(asked.get("redirect_uri") ?? "");
      back.search = new URLSearchParams({
        code,
        state: asked.get("state") ?? "",
        iss: issuer,
      }).toString();
      return back;
    },
    /** Signs claims with the provider's key: a logout token, for example. */
    sign: (claims: Record<string, unknown>) => key.sign(claims),
    /** Replaces the signing key, and publishes the new one. */
    rotateKeys: async () => {
      key = await makeKey(crypto.randomUUID());
    },
    /** The number of requests of each path. */
    requests,
    /** The number of requests of a path that are waiting for a response. */
    waiting: (path: string) => waiting.filter((asked) => asked === path).length,
    close,
  };
  return provider;
};

const makeKey = async (kid: string) => {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  return {
    jwk: { ...(await exportJWK(publicKey)), kid, alg: "ES256", use: "sig" },
    sign: (claims: Record<string, unknown>) => signWith(privateKey, kid, claims),
  };
};

const signWith = (key: CryptoKey, kid: string, claims: Record<string, unknown>) =>
  new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid }).sign(key);
